"""The contract every method keeps, as checks that anybody can run on their own method.

    import midway.testing, pytest

    @pytest.mark.parametrize("check", midway.testing.CONTRACT, ids=lambda check: check.__name__)
    def test_contract(check):
        check(lambda model: MyMethod(model, lr=1e-3))

A check takes a function that wraps a model in the method, and raises AssertionError where the contract is broken.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from midway.adaptation.base import Method

Factory = Callable[[nn.Module], Method]
Norm = Literal["batch", "layer", "group", "instance"]
NORMS: tuple[Norm, ...] = ("batch", "layer", "group", "instance")


def tiny_network(norm: Norm = "batch", *, channels: int = 3, classes: int = 4, seed: int = 0) -> nn.Module:
    """Make a small convolutional classifier for images of any size, in evaluation mode, with lived-in statistics.

    Example:
        >>> import torch
        >>> from midway.testing import tiny_network
        >>> tiny_network("group", channels=1)(torch.rand(2, 1, 9, 7)).shape
        torch.Size([2, 4])
    """
    layers: dict[Norm, Callable[[int], nn.Module]] = {
        "batch": nn.BatchNorm2d,
        "layer": lambda width: nn.GroupNorm(1, width),
        "group": lambda width: nn.GroupNorm(2, width),
        "instance": lambda width: nn.InstanceNorm2d(width, affine=True, track_running_stats=True),
    }
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1, bias=False),
            layers[norm](8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2, padding=1, bias=False),
            layers[norm](8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            *([nn.LayerNorm(8)] if norm == "layer" else []),
            nn.Linear(8, classes),
        )
        network.train()(torch.rand(32, channels, 16, 16))
    return network.eval()


def batches(count: int = 3, *, size: int = 12, channels: int = 3, side: int = 16, seed: int = 1) -> list[Tensor]:
    """Make batches of random images in [0, 1], each image with its own brightness and contrast."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        images = torch.rand(size, channels, side, side, generator=generator)
        contrast = torch.rand(size, 1, 1, 1, generator=generator)
        made.append((images * contrast + torch.rand(size, 1, 1, 1, generator=generator) * (1 - contrast)).clamp(0, 1))
    return made


@contextmanager
def _quiet() -> Iterator[None]:
    """Single images and networks without BatchNorm earn a warning, which is right and not what is checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _make(factory: Factory, model: nn.Module | None = None) -> Method:
    with _quiet():
        return factory(tiny_network() if model is None else model)


def _run(method: Method, stream: list[Tensor]) -> list[Tensor]:
    with _quiet():
        return [method(images) for images in stream]


def _equal(first: Any, second: Any) -> bool:
    """Tell whether two pieces of state have the same bits."""
    if isinstance(first, Tensor):
        return isinstance(second, Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_equal(value, second[key]) for key, value in first.items())
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)


def check_the_given_model_never_changes(factory: Factory) -> None:
    """Weights, buffers, gradients flags and modes of the given model stay as they were."""
    for training in (False, True):
        model = tiny_network().train(training)
        state, flags = copy.deepcopy(model.state_dict()), [p.requires_grad for p in model.parameters()]
        _run(_make(factory, model), batches())
        assert _equal(dict(state), dict(model.state_dict())), "adapting changed the given model's weights or buffers"
        assert flags == [p.requires_grad for p in model.parameters()], "adapting changed requires_grad"
        assert all(module.training is training for module in model.modules()), "adapting changed the mode"
        assert all(p.grad is None for p in model.parameters()), "adapting left gradients in the given model"


def check_answers_are_plain_logits(factory: Factory) -> None:
    """Answers are float32, detached, finite, one row an image, and the images are left alone, in either layout."""
    method = _make(factory)
    first, second, third = batches()
    for images in (first, second.to(memory_format=torch.channels_last), third):
        before = images.clone()
        logits = _run(method, [images])[0]
        assert logits.shape == (len(images), 4), f"logits have shape {tuple(logits.shape)}"
        assert logits.dtype == torch.float32, f"logits are {logits.dtype}"
        assert not logits.requires_grad, "logits carry a graph"
        assert logits.isfinite().all(), "logits are not finite"
        assert torch.equal(images, before), "the images were changed"


def check_reset_is_exact(factory: Factory) -> None:
    """After a reset the state and all answers to come are those of a new instance, bit for bit."""
    method, fresh = _make(factory), _make(factory)
    first = _run(method, batches())
    method.reset()
    assert _equal(dict(method.state_dict()), dict(fresh.state_dict())), "reset left something behind in the state"
    assert _equal(first, _run(method, batches())), "the same batches get other answers after a reset"


def check_resume_is_exact(factory: Factory) -> None:
    """A state taken after batch k, saved or not, and loaded elsewhere gives the same bits from batch k + 1 on."""
    stream = batches(4)
    method = _make(factory)
    _run(method, stream[:2])
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    kept = method.state_dict()
    expected = _run(method, stream[2:])
    method.load_state_dict(kept)
    assert _equal(expected, _run(method, stream[2:])), "a state dict changes as the method goes on"
    other = _make(factory)
    _run(other, batches(1, seed=9))
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert _equal(expected, _run(other, stream[2:])), "a resumed method answers differently"
    other.reset()
    assert _equal(_run(_make(factory), stream), _run(other, stream)), "reset after resuming is not the source"


def check_copies_are_independent(factory: Factory) -> None:
    """A deep copy goes on exactly like the original, and neither disturbs the other."""
    stream = batches(3)
    method = _make(factory)
    _run(method, stream[:1])
    expected = _run(copy.deepcopy(method), stream[1:])
    twin = copy.deepcopy(method)
    _run(twin, batches(2, seed=5))
    assert _equal(expected, _run(method, stream[1:])), "a copy answers differently, or running one disturbed this"
    assert _equal(expected, _run(_make(factory), stream)[1:]), "the copy of an adapted method is not adapted"


def check_bad_input_changes_nothing(factory: Factory) -> None:
    """NaN, Inf, wrong shape, wrong dtype, empty and normalised images raise, and the state is as before."""
    good = batches(2)
    method, twin = _make(factory), _make(factory)
    _run(method, good[:1])
    _run(twin, good[:1])
    poisoned, infinite = good[0].clone(), good[0].clone()
    poisoned[1, 0, 2, 3], infinite[0, 0, 0, 0] = float("nan"), float("inf")
    bad: list[Any] = [
        poisoned,
        infinite,
        good[0][0],
        good[0][:0],
        good[0][:, :2],
        (good[0] * 255).to(torch.uint8),
        good[0] * 255,
        good[0] * 4 - 2,
        good[0].numpy(),
        None,
    ]
    bad.append(good[0].double())
    for images in bad:
        try:
            _run(method, [images])
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(f"no error for {_describe(images)}")
        assert _equal(dict(method.state_dict()), dict(twin.state_dict())), f"{_describe(images)} changed the state"
    assert _equal(_run(method, good[1:]), _run(twin, good[1:])), "answers differ after bad input"


def _describe(images: Any) -> str:
    return f"{images.dtype} images of shape {tuple(images.shape)}" if hasattr(images, "shape") else repr(images)


def check_gradient_modes_do_not_matter(factory: Factory) -> None:
    """Callers under no_grad and inference_mode get the same bits."""
    stream = batches()
    expected = _run(_make(factory), stream)
    with torch.no_grad():
        assert _equal(expected, _run(_make(factory), stream)), "answers differ under torch.no_grad()"
    with torch.inference_mode():
        inside = [images.clone() for images in stream]
        method = _make(factory, tiny_network())
        answers = [_run(method, inside)]
        method.reset()
        answers.append(_run(method, inside))
        method.load_state_dict(_make(factory).state_dict())
        answers.append(_run(copy.deepcopy(method), inside))
        method.restore(method.snapshot())
        answers.append(_run(method, inside))
    for answer in answers:
        assert _equal(expected, [logits.clone() for logits in answer]), "answers differ under torch.inference_mode()"


def check_train_and_eval_do_not_matter(factory: Factory) -> None:
    """Switching modes changes no answer: eval() does not bring the source statistics back."""
    stream = batches()
    expected = _run(_make(factory), stream)
    assert _equal(expected, _run(_make(factory).eval(), stream)), "eval() changes the answers"
    assert _equal(expected, _run(_make(factory).train(), stream)), "train() changes the answers"


def check_autocast_blocks_do_not_matter(factory: Factory) -> None:
    """One ``torch.autocast`` block around a stream answers like a block a batch: weights that move are seen."""
    stream = batches()
    apart, together = _make(factory), _make(factory)
    expected = []
    for images in stream:
        with torch.autocast("cpu", torch.bfloat16):
            expected += _run(apart, [images])
    with torch.autocast("cpu", torch.bfloat16):
        assert _equal(expected, _run(together, stream)), "one autocast block answers unlike several"
        together.reset()
        assert _equal(expected, _run(together, stream)), "a reset within an autocast block is not seen"


class _Overflowing(nn.Module):
    """Leaves images alone but those whose first value is 1, which it makes too large for the layers to come."""

    def forward(self, images: Tensor) -> Tensor:
        return images * torch.where(images[:, :1, :1, :1] == 1, 1e38, 1.0)


def check_an_overflow_does_not_stay(factory: Factory) -> None:
    """An image on which the network overflows may spoil its own batch, not the answers to later ones."""
    method = _make(factory, nn.Sequential(_Overflowing(), *tiny_network().children()))
    good, bad, after = (images * 0.9 for images in batches())
    bad[3, 0, 0, 0] = 1.0
    assert _run(method, [good, bad, after])[-1].isfinite().all(), "after an image that overflows nothing is finite"


def check_every_norm_and_image_works(factory: Factory) -> None:
    """BatchNorm, LayerNorm, GroupNorm and InstanceNorm; one channel; other sizes; single images."""
    for norm in NORMS:
        _run(_make(factory, tiny_network(norm)), batches(2))
    _run(_make(factory, tiny_network(channels=1)), batches(2, channels=1))
    _run(_make(factory), batches(2, side=24))
    for answer in _run(_make(factory), batches(2, size=1)):
        assert answer.isfinite().all(), "a single image gets answers that are not finite"


def check_repr_names_the_hyperparameters(factory: Factory) -> None:
    """Repr shows the class and every hyper-parameter."""
    method = _make(factory)
    shown = repr(method)
    assert shown.startswith(type(method).__name__), shown
    assert all(f"{name}=" in shown for name in method.hyperparameters), shown


CONTRACT: tuple[Callable[[Factory], None], ...] = (
    check_the_given_model_never_changes,
    check_answers_are_plain_logits,
    check_reset_is_exact,
    check_resume_is_exact,
    check_copies_are_independent,
    check_bad_input_changes_nothing,
    check_gradient_modes_do_not_matter,
    check_train_and_eval_do_not_matter,
    check_autocast_blocks_do_not_matter,
    check_an_overflow_does_not_stay,
    check_every_norm_and_image_works,
    check_repr_names_the_hyperparameters,
)
"""All checks; each takes a function from a model to a method."""
