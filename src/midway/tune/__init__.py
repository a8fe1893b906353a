"""Search the hyper-parameters of a method on the tuning corruptions; every trial is stored.

The search is Optuna's (``pip install 'midway[tune]'``), which is imported when a study is opened.
"""

from midway.tune.plan import HELD_OUT_SCENARIOS, held_out_plan, to_toml
from midway.tune.result import StudyResult, TrialRecord
from midway.tune.run import tune
from midway.tune.score import Score, score
from midway.tune.search import SCENARIOS, Search

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
