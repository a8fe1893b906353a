"""Networks, one architecture per file, and the trained weights in the package."""

from midway.models.checkpoints import CheckpointError
from midway.models.denoiser import Denoiser, cosine_schedule, linear_schedule
from midway.models.noise_predictor import NoisePredictor
from midway.models.normalize import Normalize
from midway.models.outputs import TwoLogits, logits_of
from midway.models.preactivation_resnet import GroupNormResNet
from midway.models.resnet import CifarResNet
from midway.models.rotation_wide_resnet import RotationWideResNet
from midway.models.select_logits import SelectLogits
from midway.models.wide_resnet import WideResNet
from midway.models.zoo import ARCHITECTURES, Card, DenoiserCard, cards, create, denoiser_cards, load, load_denoiser

__all__ = [
    "ARCHITECTURES",
    "Card",
    "CheckpointError",
    "CifarResNet",
    "Denoiser",
    "DenoiserCard",
    "GroupNormResNet",
    "NoisePredictor",
    "Normalize",
    "RotationWideResNet",
    "SelectLogits",
    "TwoLogits",
    "WideResNet",
    "cards",
    "cosine_schedule",
    "create",
    "denoiser_cards",
    "linear_schedule",
    "load",
    "load_denoiser",
    "logits_of",
]
