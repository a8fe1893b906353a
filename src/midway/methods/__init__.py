"""Test-time adaptation, one paper a file."""

from midway.methods.base import About, Method
from midway.methods.bn import BN
from midway.methods.registry import adapt, find, hyperparameters, names, register
from midway.methods.source import Source
from midway.methods.tent import Tent

for _method in (Source, BN, Tent):
    register(_method)

__all__ = ["BN", "About", "Method", "Source", "Tent", "adapt", "find", "hyperparameters", "names", "register"]
