"""The registered methods and wrappers by name; written by `python recipes/write_stubs.py`."""

from midway.adaptation.wrappers.episodic import Episodic
from midway.adaptation.wrappers.guarded import Guarded
from midway.adaptation.wrappers.mirrored import Mirrored
from midway.adaptation.wrappers.periodic import Periodic
from midway.adaptation.wrappers.window import Window
from midway.methods.aea import AEA
from midway.methods.bn import BN
from midway.methods.cmf import CMF
from midway.methods.cotta import CoTTA
from midway.methods.dda import DDA
from midway.methods.delta import DELTA
from midway.methods.deyo import DeYO
from midway.methods.dua import DUA
from midway.methods.eata import EATA
from midway.methods.lame import LAME
from midway.methods.memo import MEMO
from midway.methods.mita import MITA
from midway.methods.note import NOTE
from midway.methods.pl import PL
from midway.methods.rdumb import RDumb
from midway.methods.roid import ROID
from midway.methods.rotta import RoTTA
from midway.methods.santa import SANTA
from midway.methods.sar import SAR
from midway.methods.shot import SHOT
from midway.methods.source import Source
from midway.methods.t3a import T3A
from midway.methods.tea import TEA
from midway.methods.tent import Tent
from midway.methods.ttt import TTT

__all__ = [  # noqa: RUF022
    "AEA",
    "BN",
    "CMF",
    "CoTTA",
    "DDA",
    "DELTA",
    "DUA",
    "DeYO",
    "EATA",
    "Episodic",
    "Guarded",
    "LAME",
    "MEMO",
    "MITA",
    "Mirrored",
    "NOTE",
    "PL",
    "Periodic",
    "RDumb",
    "ROID",
    "RoTTA",
    "SANTA",
    "SAR",
    "SHOT",
    "Source",
    "T3A",
    "TEA",
    "TTT",
    "Tent",
    "Window",
]
