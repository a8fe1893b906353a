"""Reduced precision on request: bf16 where the machine is fast at it, energies and updates in float32."""

from __future__ import annotations

from typing import Literal

import torch

Precision = Literal["float32", "bf16", "auto"]


def use_bf16(precision: Precision, device: torch.device) -> bool:
    """Tell whether to run a network in bf16 on a device.

    ``"auto"`` says yes on a CPU with AMX or AVX512-BF16 instructions and on a GPU that supports bf16: elsewhere
    bf16 is emulated and many times slower than float32.

    Example:
        >>> import torch
        >>> from midway.methods.precision import use_bf16
        >>> use_bf16("bf16", torch.device("cpu")), use_bf16("float32", torch.device("cpu"))
        (True, False)
    """
    if precision not in ("float32", "bf16", "auto"):
        raise ValueError(f"precision must be 'float32', 'bf16' or 'auto', got {precision!r}.")
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cpu":
        return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported()
