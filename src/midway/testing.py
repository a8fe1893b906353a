"""The contract of every method, as checks that you can run on your own method.

    import midway.testing, pytest

    @pytest.mark.parametrize("check", midway.testing.CONTRACT, ids=lambda check: check.__name__)
    def test_contract(check):
        check(lambda model: MyMethod(model, lr=1e-3))

A check takes a function that wraps a model in the method, and raises AssertionError if it violates the contract.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from midway._equal import equal, plain_attributes
from midway._resume import resume_elsewhere
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.nonfinite import NonFiniteError
from midway.methods.source import Source

Factory = Callable[[nn.Module], AdaptiveClassifier]
Norm = Literal["batch", "layer", "group", "instance"]
NORMS: tuple[Norm, ...] = ("batch", "layer", "group", "instance")


class TinyNetwork(nn.Sequential):
    """Layers in order, and a second head without weights of its own, for methods that learn rotations (TTT).

    Example:
        >>> import midway, torch
        >>> midway.testing.tiny_network().rotation_logits(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 4])
    """

    def rotation_logits(self, images: Tensor) -> Tensor:
        """Return the first four features as the logits of four rotations."""
        features = images
        for layer in list(self.children())[:-1]:
            features = layer(features)
        return features[:, :4]


def tiny_network(norm: Norm = "batch", *, channels: int = 3, classes: int = 4, seed: int = 0) -> TinyNetwork:
    """Return a small convolutional classifier for images of any size, in evaluation mode, with running statistics.

    Example:
        >>> import midway, torch
        >>> midway.testing.tiny_network("group", channels=1)(torch.rand(2, 1, 9, 7)).shape
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
        network = TinyNetwork(
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
    """Return batches of random images in [0, 1], each image with its own brightness and contrast.

    Example:
        >>> import midway
        >>> [images.shape for images in midway.testing.batches(2)]
        [torch.Size([12, 3, 16, 16]), torch.Size([12, 3, 16, 16])]
    """
    generator = torch.Generator().manual_seed(seed)
    result = []
    for _ in range(count):
        images = torch.rand(size, channels, side, side, generator=generator)
        contrast = torch.rand(size, 1, 1, 1, generator=generator)
        result.append((images * contrast + torch.rand(size, 1, 1, 1, generator=generator) * (1 - contrast)).clamp(0, 1))
    return result


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore warnings: single images and networks without BatchNorm cause some, which are not checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _make(factory: Factory, model: nn.Module | None = None) -> AdaptiveClassifier:
    with _quiet():
        return factory(tiny_network() if model is None else model)


def _run(method: AdaptiveClassifier, stream: list[Tensor]) -> list[Tensor]:
    with _quiet():
        return [method(images) for images in stream]


def _load(method: AdaptiveClassifier, state: Any) -> None:
    try:
        method.load_state_dict(state)
    except ValueError as error:
        raise AssertionError(
            f"a saved state is refused: {error} Is all that changes declared with add_state?"
        ) from error


def check_the_given_model_never_changes(factory: Factory) -> None:
    """Weights, buffers, gradient flags and modes of the given model do not change."""
    for training in (False, True):
        model = tiny_network().train(training)
        state, flags = copy.deepcopy(model.state_dict()), [p.requires_grad for p in model.parameters()]
        _run(_make(factory, model), batches())
        assert equal(state, model.state_dict()), "adapting changed the given model's weights or buffers"
        assert flags == [p.requires_grad for p in model.parameters()], "adapting changed requires_grad"
        assert all(module.training is training for module in model.modules()), "adapting changed the mode"
        assert all(p.grad is None for p in model.parameters()), "adapting left gradients in the given model"


def check_predictions_are_plain_logits(factory: Factory) -> None:
    """Logits are float32, detached, finite, one row per image, and the images do not change, in either layout."""
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
    """After a reset the state and all predictions are those of a new instance, bit for bit."""
    method, fresh = _make(factory), _make(factory)
    first = _run(method, batches())
    method.reset()
    assert equal(method.state_dict(), fresh.state_dict()), "the state after a reset is not that of a new instance"
    assert equal(first, _run(method, batches())), "the same batches have other predictions after a reset"


def check_changing_attributes_are_declared(factory: Factory) -> None:
    """A reset restores every attribute of the method that batches change: what changes is declared with ``add_state``.

    A counter that is not declared would show only when it changes a prediction, after many batches.
    """
    method, base = _make(factory), Source(tiny_network())
    _run(base, batches(1))
    before = plain_attributes(method, vars(base))
    _run(method, batches(4))
    method.reset()
    after = plain_attributes(method, vars(base))
    changed = [name for name in before.keys() | after.keys() if not equal(before.get(name), after.get(name))]
    assert not changed, (
        f"a reset does not restore {', '.join(sorted(changed))}: declare what changes from batch to batch, "
        f'self.{min(changed)} = self.add_state("{min(changed)}", ...)'
    )


def check_resume_is_exact(factory: Factory) -> None:
    """A state loaded into the same instance, or into one with another history, continues with the same bits."""
    stream = batches(4)
    method = _make(factory)
    _run(method, stream[:2])
    state = method.state_dict()
    expected = _run(method, stream[2:])
    _load(method, state)
    assert equal(expected, _run(method, stream[2:])), "a resumed method predicts differently"
    other = _make(factory)
    _run(other, batches(1, seed=9))
    _load(other, state)
    assert equal(expected, _run(other, stream[2:])), "a resumed method depends on what it did before"
    other.reset()
    assert equal(_run(_make(factory), stream), _run(other, stream)), "reset after resuming is not the source"


def check_saved_states_are_independent(factory: Factory) -> None:
    """A state in memory does not change while the method adapts; a fresh instance that loads it has the same bits."""
    stream = batches(4)
    method = _make(factory)
    _run(method, stream[:2])
    state = method.state_dict()
    before = copy.deepcopy(state)
    expected = _run(method, stream[2:])
    assert equal(before, state), "a state dict changes when the method goes on adapting"
    fresh = _make(factory)
    _load(fresh, state)
    assert equal(expected, _run(fresh, stream[2:])), "a fresh instance with a loaded state predicts differently"


def check_resume_in_another_process(factory: Factory) -> None:
    """A state that was saved to a file, loaded by another process into a fresh instance, gives the same bits."""
    stream = batches(3)
    method = _make(factory)
    _run(method, stream[:1])
    with tempfile.TemporaryDirectory() as folder:
        torch.save(method.state_dict(), Path(folder) / "state.pt")
        torch.save(stream[1:], Path(folder) / "stream.pt")
        expected = _run(method, stream[1:])
        resumed = resume_elsewhere(_make(factory), Path(folder))
    assert equal(expected, resumed), "a method resumed from a file in another process predicts differently"


def check_copies_are_independent(factory: Factory) -> None:
    """A deep copy continues exactly like the original, and neither affects the other."""
    stream = batches(3)
    method = _make(factory)
    _run(method, stream[:1])
    expected = _run(copy.deepcopy(method), stream[1:])
    twin = copy.deepcopy(method)
    _run(twin, batches(2, seed=5))
    assert equal(expected, _run(method, stream[1:])), "a copy predicts differently, or running one affected the other"
    assert equal(expected, _run(_make(factory), stream)[1:]), "the copy of an adapted method is not adapted"


def check_bad_input_changes_nothing(factory: Factory) -> None:
    """NaN, Inf, wrong shape, wrong dtype, empty and normalised images raise, and the state does not change."""
    good = batches(2)
    method, twin = _make(factory), _make(factory)
    _run(method, good[:1])
    _run(twin, good[:1])
    poisoned, infinite = good[0].clone(), good[0].clone()
    poisoned[1, 0, 2, 3], infinite[0, 0, 0, 0] = float("nan"), float("inf")
    bad: list[Any] = [poisoned, infinite, good[0][0], good[0][:0], good[0][:, :2]]
    bad += [good[0].double(), good[0].numpy(), None]
    bad += [(good[0] * 255).to(torch.uint8), good[0] * 255, good[0] * 4 - 2]
    for images in bad:
        shown = f"{images.dtype} images of shape {tuple(images.shape)}" if hasattr(images, "shape") else repr(images)
        try:
            _run(method, [images])
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(f"no error for {shown}")
        assert equal(method.state_dict(), twin.state_dict()), f"{shown} changed the state"
    assert equal(_run(method, good[1:]), _run(twin, good[1:])), "predictions differ after bad input"


def check_gradient_modes_do_not_matter(factory: Factory) -> None:
    """Callers under no_grad and inference_mode get the same bits."""
    stream = batches()
    expected = _run(_make(factory), stream)
    with torch.no_grad():
        assert equal(expected, _run(_make(factory), stream)), "predictions differ under torch.no_grad()"
    with torch.inference_mode():
        inside = [images.clone() for images in stream]
        method = _make(factory, tiny_network())
        runs = [_run(method, inside)]
        method.reset()
        runs.append(_run(method, inside))
        _load(method, _make(factory).state_dict())
        runs.append(_run(copy.deepcopy(method), inside))
        method.restore(method.snapshot())
        runs.append(_run(method, inside))
    for run in runs:
        assert equal(expected, [logits.clone() for logits in run]), "predictions differ under torch.inference_mode()"


def check_train_and_eval_do_not_matter(factory: Factory) -> None:
    """Switching modes changes no prediction: eval() does not restore the source statistics."""
    stream = batches()
    expected = _run(_make(factory), stream)
    assert equal(expected, _run(_make(factory).eval(), stream)), "eval() changes the predictions"
    assert equal(expected, _run(_make(factory).train(), stream)), "train() changes the predictions"


def check_autocast_blocks_do_not_matter(factory: Factory) -> None:
    """One ``torch.autocast`` block around a stream predicts like one block per batch, although weights change."""
    stream = batches()
    apart, together = _make(factory), _make(factory)
    expected = []
    for images in stream:
        with torch.autocast("cpu", torch.bfloat16):
            expected += _run(apart, [images])
    with torch.autocast("cpu", torch.bfloat16):
        assert equal(expected, _run(together, stream)), "one autocast block predicts unlike several"
        together.reset()
        assert equal(expected, _run(together, stream)), "a reset within an autocast block has no effect"


class _Overflowing(nn.Module):
    """Multiplies images whose first value is 1 by a number that makes the later layers overflow."""

    def forward(self, images: Tensor) -> Tensor:
        return images * torch.where(images[:, :1, :1, :1] == 1, 1e38, 1.0)


def check_an_overflow_does_not_stay(factory: Factory) -> None:
    """A batch on which the network overflows is refused and changes nothing, or yields finite logits."""
    method = _make(factory, TinyNetwork(_Overflowing(), *tiny_network().children()))
    good, bad, after = (images * 0.9 for images in batches())
    bad[3, 0, 0, 0] = 1.0
    _run(method, [good])
    undisturbed = copy.deepcopy(method)
    try:
        logits = _run(method, [bad])[0]
    except NonFiniteError:
        assert torch.equal(*_run(method, [after]), *_run(undisturbed, [after])), "a refused batch changed the state"
    else:
        assert logits.isfinite().all(), "the predictions of an image that overflows are not finite"
        assert _run(method, [after])[0].isfinite().all(), "those after an image that overflows are not finite"


def check_every_norm_and_image_works(factory: Factory) -> None:
    """BatchNorm, LayerNorm, GroupNorm and InstanceNorm; one channel; other sizes; single images."""
    for norm in NORMS:
        _run(_make(factory, tiny_network(norm)), batches(2))
    _run(_make(factory, tiny_network(channels=1)), batches(2, channels=1))
    _run(_make(factory), batches(2, side=24))
    for logits in _run(_make(factory), batches(2, size=1)):
        assert logits.isfinite().all(), "the logits of a single image are not finite"


def check_repr_names_the_hyperparameters(factory: Factory) -> None:
    """Repr shows the class and every hyper-parameter."""
    method = _make(factory)
    shown = repr(method)
    assert shown.startswith(type(method).__name__), shown
    assert all(f"{name}=" in shown for name in method.hyperparameters), shown


CONTRACT: tuple[Callable[[Factory], None], ...] = tuple(
    value for name, value in globals().items() if name.startswith("check_")
)
"""All checks; each takes a function from a model to a method."""
