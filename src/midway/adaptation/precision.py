"""Reduced precision on request: bf16 where the hardware supports it; energies and updates stay in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["float32", "bf16", "auto"]


def use_bf16(precision: Precision, device: torch.device) -> bool:
    """Return whether to run a network in bf16 on a device.

    ``"auto"`` is True if the CPU (AMX, AVX512-BF16) or GPU supports it; elsewhere bf16 is emulated and very slow.
    """
    if precision not in ("float32", "bf16", "auto"):
        raise ValueError(f"precision must be 'float32', 'bf16' or 'auto', got {precision!r}.")
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cpu":
        return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


@contextmanager
def without_autocast_cache() -> Iterator[None]:
    """Disable the weight cache of ``torch.autocast``.

    An autocast block caches the reduced copies of weights until it ends, so a network whose weights are updated in
    place, or reset, within the block would go on predicting with the old ones.
    """
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        torch.clear_autocast_cache()  # copies that earlier code cached of weights that have changed
