"""Search the hyper-parameters of a method on the tuning corruptions; every trial is stored.

The search is Optuna's (``pip install 'midway[tune]'``), which is imported when a study is opened.
"""

from midway.tune.result import HELD_OUT_SCENARIOS, StudyResult, TrialRecord, held_out_plan, to_toml
from midway.tune.run import tune
from midway.tune.search import SCENARIOS, Score, Search, score

__all__ = [
    "HELD_OUT_SCENARIOS",
    "SCENARIOS",
    "Score",
    "Search",
    "StudyResult",
    "TrialRecord",
    "held_out_plan",
    "score",
    "to_toml",
    "tune",
]
