"""Reduced precision on request: bf16 where the machine is fast at it, energies and updates in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["float32", "bf16", "auto"]


def use_bf16(precision: Precision, device: torch.device) -> bool:
    """Tell whether to run a network in bf16 on a device.

    ``"auto"`` says yes on a CPU with AMX or AVX512-BF16 instructions and on a GPU that supports bf16: elsewhere
    bf16 is emulated and many times slower than float32.

    Example:
        >>> import torch
        >>> from midway.adaptation.precision import use_bf16
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


@contextmanager
def weights_cast_anew() -> Iterator[None]:
    """Let ``torch.autocast`` see weights that move.

    An autocast block keeps the reduced copies of weights until it ends, so a network whose weights are stepped in
    place, or reset, within one block would go on answering with the old ones.

    Example:
        >>> import torch
        >>> from midway.adaptation.precision import weights_cast_anew
        >>> layer, one = torch.nn.Linear(1, 1, bias=False), torch.ones(1, 1)
        >>> with torch.autocast("cpu", torch.bfloat16), weights_cast_anew():
        ...     _ = layer(one)
        ...     _ = layer.weight.data.fill_(2.0)
        ...     layer(one).item()
        2.0
    """
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        torch.clear_autocast_cache()  # copies that somebody else made of weights that have moved
