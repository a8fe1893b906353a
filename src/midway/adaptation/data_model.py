"""The data model of MITA: a second set of scales and shifts for a network, adapted further than the predictor's."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import nn

from midway.adaptation.batch_norm.cluster_state import trackers_of
from midway.adaptation.energy import ModelAda

DataModel = Literal["single", "persistent", "fresh", "same"]
"""How MITA's data model is related to its predictor."""


def check_data_model(data_model: str, predictor_share: float, predictor_steps: int, data_model_steps: int) -> None:
    """Raise if the data model is unknown or the numbers of steps do not fit it."""
    if data_model not in ("single", "persistent", "fresh", "same"):
        raise ValueError(f"data_model must be 'single', 'persistent', 'fresh' or 'same', got {data_model!r}.")
    if not 0 <= predictor_share <= 1:
        raise ValueError(f"predictor_share must be between 0 and 1, got {predictor_share}.")
    if data_model == "fresh" and data_model_steps <= predictor_steps:
        raise ValueError(
            f"a fresh data model continues from the predictor: data_model_steps ({data_model_steps}) "
            f"must be more than predictor_steps ({predictor_steps})."
        )


def copy_trainable(model: nn.Module) -> nn.Module:
    """Copy the trainable weights and share the frozen ones: the second model costs only its scales and shifts.

    The tracker of clusters is shared too: clusters depend on the images alone.
    """
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    return copy.deepcopy(model, memo={id(each): each for each in [*frozen, *trackers_of(model)]})


@torch.no_grad()
def start_from(predictor: ModelAda, data_model: ModelAda) -> None:
    """Give the data model the predictor's weights and moments; they already share their chains."""
    for mine, theirs in zip(data_model.trainable, predictor.trainable, strict=True):
        mine.copy_(theirs)
    moments = copy.deepcopy(predictor.optimizer.state_dict()["state"])
    optimizer = data_model.optimizer
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})


@torch.no_grad()
def put_between(predictor: nn.Module, data_model: ModelAda, share: float) -> None:
    """Set the weights of the predictor to a point between the source (share 0) and the data model (share 1)."""
    weights = (parameter for parameter in predictor.parameters() if parameter.requires_grad)
    for weight, source, further in zip(weights, data_model.source_weights, data_model.trainable, strict=True):
        weight.copy_(torch.lerp(source.to(weight), further, share))
