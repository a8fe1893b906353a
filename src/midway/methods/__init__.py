"""Test-time adaptation, one paper a file."""

from midway.adaptation.base import About, Method
from midway.adaptation.clustered import kindred
from midway.adaptation.episodic import Episodic
from midway.adaptation.guarded import Guarded
from midway.adaptation.presets import preset
from midway.adaptation.registry import adapt, find, hyperparameters, names, register
from midway.methods.bn import BN
from midway.methods.dua import DUA
from midway.methods.eata import EATA
from midway.methods.lame import LAME
from midway.methods.memo import MEMO
from midway.methods.mita import MITA
from midway.methods.pl import PL
from midway.methods.sar import SAR
from midway.methods.shot import SHOT
from midway.methods.source import Source
from midway.methods.t3a import T3A
from midway.methods.tea import TEA
from midway.methods.tent import Tent

for _method in (Source, BN, Tent, PL, SHOT, EATA, SAR, MEMO, T3A, LAME, DUA, TEA, MITA):
    register(_method)

__all__ = [
    "BN",
    "DUA",
    "EATA",
    "LAME",
    "MEMO",
    "MITA",
    "PL",
    "SAR",
    "SHOT",
    "T3A",
    "TEA",
    "About",
    "Episodic",
    "Guarded",
    "Method",
    "Source",
    "Tent",
    "adapt",
    "find",
    "hyperparameters",
    "kindred",
    "names",
    "preset",
    "register",
]
