"""Search a method's hyper-parameters on the tuning corruptions, and keep every trial.

Optuna does the searching (``pip install 'midway[tune]'``); it is imported when a study is opened.
"""

from midway.tune.findings import Findings, TrialRecord
from midway.tune.plan import HELD_OUT, held_out_plan, to_toml
from midway.tune.run import tune
from midway.tune.score import Score, score
from midway.tune.search import SCENARIOS, Search

__all__ = [
    "HELD_OUT",
    "SCENARIOS",
    "Findings",
    "Score",
    "Search",
    "TrialRecord",
    "held_out_plan",
    "score",
    "to_toml",
    "tune",
]
