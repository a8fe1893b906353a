"""Test-time adaptation, one paper a file."""

from midway.methods.base import About, Method
from midway.methods.bn import BN
from midway.methods.mita import MITA
from midway.methods.registry import adapt, find, hyperparameters, names, register
from midway.methods.source import Source
from midway.methods.tea import TEA
from midway.methods.tent import Tent

for _method in (Source, BN, Tent, TEA, MITA):
    register(_method)

__all__ = [
    "BN",
    "MITA",
    "TEA",
    "About",
    "Method",
    "Source",
    "Tent",
    "adapt",
    "find",
    "hyperparameters",
    "names",
    "register",
]
