"""Search the hyper-parameters of a method on the tuning corruptions; every trial is stored.

The search is Optuna's (``pip install 'midway[tune]'``), which is imported when a study is opened.
"""

from midway.tune.result import HELD_OUT_SCENARIOS, StudyResult, TrialRecord, held_out_plan, to_toml
from midway.tune.run import tune
from midway.tune.search import SCENARIOS, Search, SettingsAccuracy, measure_accuracy

__all__ = [
    "HELD_OUT_SCENARIOS",
    "SCENARIOS",
    "Search",
    "SettingsAccuracy",
    "StudyResult",
    "TrialRecord",
    "held_out_plan",
    "measure_accuracy",
    "to_toml",
    "tune",
]
