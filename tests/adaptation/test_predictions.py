"""Predictions are complete and finite, or refused with the state as before; threads take turns; probabilities warn."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.nonfinite import NonFiniteError
from midway.adaptation.wrappers import Wrapper
from midway.methods import About, AdaptiveClassifier, Method, names
from midway.testing import batches, tiny_network

CHEAP: dict[str, dict[str, Any]] = {
    "memo": {"views": 2},
    "tea": {"langevin_steps": 2},
    "dua": {"copies": 2},
    "dda": {"respacing": 20, "steps": 2},
}
ON_ANY_NETWORK = [name for name in names() if "rotation head" not in midway.methods.find(name).about.needs]
BY_GRADIENTS = [name for name in ON_ANY_NETWORK if midway.adapt(tiny_network(), name).num_trainable()]


def adapted(name: str, model: nn.Module | None = None, **settings: Any) -> AdaptiveClassifier:
    return midway.adapt(model or tiny_network(), name, **{**CHEAP.get(name, {}), **settings})


class Outside(nn.Module):
    """Changes the logits of a network."""

    def __init__(self, network: nn.Module, change: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.change = network, change

    def forward(self, images: Tensor) -> Tensor:
        return self.change(self.network(images), images)


def detached(logits: Tensor, images: Tensor) -> Tensor:
    return logits.detach()


def integers(logits: Tensor, images: Tensor) -> Tensor:
    return (100 * logits).long()


def probabilities(logits: Tensor, images: Tensor) -> Tensor:
    return logits.softmax(dim=1)


def nan_for_bright(logits: Tensor, images: Tensor) -> Tensor:
    return logits.where((images.mean(dim=(1, 2, 3)) < 0.9)[:, None], torch.nan)


def tensors(state: Any) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, dict):
        return [tensor for key in sorted(state, key=str) for tensor in tensors(state[key])]
    if isinstance(state, list | tuple):
        return [tensor for item in state for tensor in tensors(item)]
    return []


def assert_same_state(before: dict[str, Any], after: dict[str, Any]) -> None:
    for old, new in zip(tensors(before), tensors(after), strict=True):
        torch.testing.assert_close(old, new, rtol=0, atol=0, equal_nan=True)
    assert before["values"].get("resolved") == after["values"].get("resolved")


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_threads_that_share_a_method_take_turns(name: str) -> None:
    method, alone = adapted(name), adapted(name)
    images = batches(1)[0]
    expected = [alone(images) for _ in range(6)]
    start = threading.Barrier(3)

    def work() -> list[Tensor]:
        start.wait()
        return [method(images) for _ in range(2)]

    with ThreadPoolExecutor(3) as pool:
        found = [logits for thread in [pool.submit(work) for _ in range(3)] for logits in thread.result()]
    assert sorted(logits.sum().item() for logits in found) == sorted(logits.sum().item() for logits in expected)
    assert_same_state(alone.snapshot(), method.snapshot())
    method.reset()
    torch.testing.assert_close(method(images), expected[0], rtol=0, atol=0)


def test_copies_and_pickles_have_a_lock_of_their_own() -> None:
    method = adapted("tent")
    images = batches(1)[0]
    for other in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):  # noqa: S301
        assert other._lock is not method._lock
        with method._lock, ThreadPoolExecutor(1) as pool:
            assert pool.submit(other, images).result(timeout=600).shape == (len(images), 4)


# ---- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_GRADIENTS)
@pytest.mark.parametrize("kind", ["detached", "quantised"])
def test_logits_without_a_gradient_are_refused_before_anything_changes(name: str, kind: str) -> None:
    if kind == "detached":
        model: nn.Module = Outside(tiny_network(), detached)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = torch.ao.quantization.quantize_dynamic(tiny_network(), {nn.Linear})
    if kind == "quantised" and name in ("santa", "aea"):
        with pytest.raises(ValueError, match="no linear layer that could be"):
            adapted(name, model)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about copies of quantised layers
        method = adapted(name, model)
    before = method.snapshot()
    with pytest.raises(ValueError, match=r"the logits of the network carry no gradient, and .* adapts by gradients"):
        method(batches(1)[0])
    assert_same_state(before, method.snapshot())


@pytest.mark.parametrize("name", ["tea", "mita"])
def test_images_without_a_gradient_are_refused_before_anything_changes(name: str) -> None:
    class Cut(nn.Sequential):
        def forward(self, images: Tensor) -> Any:
            return super().forward(images.detach())

    method = adapted(name, Cut(*tiny_network().children()))
    before = method.snapshot()
    with pytest.raises(ValueError, match=r"carry no gradient of the images"):
        method(batches(1)[0])
    assert_same_state(before, method.snapshot())


@pytest.mark.parametrize("name", ON_ANY_NETWORK)
def test_integer_logits_are_refused(name: str) -> None:
    method = adapted(name, Outside(tiny_network(), integers))
    with pytest.raises(ValueError, match=r"the model returns torch\.int64 logits"):
        method(batches(1)[0])


# ---- NaN and Inf -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*ON_ANY_NETWORK} - {"t3a"}))  # it predicts by features and prototypes
def test_a_prediction_with_nan_is_refused_and_the_state_is_as_before(name: str) -> None:
    method = adapted(name, Outside(tiny_network(), nan_for_bright))
    first, bad, last = (0.8 * images for images in batches())
    bad[2] = 0.95
    method(first)
    before, undisturbed = method.snapshot(), copy.deepcopy(method)
    with pytest.raises(NonFiniteError, match=r"NaN or Inf, the first has index \d; so does the network itself"):
        method(bad)
    assert_same_state(before, method.snapshot())
    torch.testing.assert_close(method(last), undisturbed(last), rtol=0, atol=0)


@pytest.mark.parametrize("name", ON_ANY_NETWORK)
def test_weights_with_nan_are_named(name: str) -> None:
    model = tiny_network()
    with torch.no_grad():
        model[0].weight[0, 0, 0, 0] = torch.nan  # type: ignore[index]
    with pytest.raises(NonFiniteError, match=r"0\.weight of the network contains NaN or Inf: load other weights"):
        adapted(name, model)(batches(1)[0])


def diverges_at(method: AdaptiveClassifier, call: int) -> None:
    """Let a method predict NaN in one of its calls, after it has changed its state."""
    inner, calls = method.step, 0

    def step(images: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        logits = inner(images)
        return logits * torch.nan if calls == call else logits

    method.step = step  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ON_ANY_NETWORK)
@pytest.mark.parametrize("wrap", [None, "episodic"])
def test_a_service_goes_on_with_the_prediction_of_the_source(name: str, wrap: str | None) -> None:
    model = tiny_network()
    method, undisturbed = (adapted(name, model, wrap=wrap, on_nonfinite="source") for _ in range(2))
    first, bad, last = batches()
    diverges_at(method, 2)
    method(first)
    torch.testing.assert_close(method(bad), model(bad).detach())
    assert method.diagnostics["source_predictions"] == 1
    undisturbed(first)
    torch.testing.assert_close(method(last), undisturbed(last), rtol=0, atol=0)
    assert "source_predictions" not in undisturbed.diagnostics
    method.reset()
    assert "source_predictions" not in method.diagnostics


@pytest.mark.parametrize("settings", [{}, {"views": "mirror"}, {"views": "mirror", "wrap": "window"}])
def test_the_source_predicts_in_the_layout_that_its_network_takes(settings: dict[str, Any]) -> None:
    layers = list(tiny_network())[:6]
    network = nn.Sequential(*layers, Viewed(), nn.Linear(8 * 8 * 8, 4))
    method = adapted("tent", network, on_nonfinite="source", **settings)
    images = batches(1)[0]
    diverges_at(method, 2)
    method(images)
    torch.testing.assert_close(method(images), network.eval()(images).detach())


class Viewed(nn.Module):
    """Flattens as only the plain layout allows."""

    def forward(self, features: Tensor) -> Tensor:
        return features.view(len(features), -1)


@pytest.mark.parametrize("wrapper", [midway.Periodic, midway.Mirrored, midway.Episodic])
def test_a_wrapper_takes_over_the_fallback_of_its_method(wrapper: type[Wrapper]) -> None:
    method = wrapper(adapted("tent", on_nonfinite="source"))
    diverges_at(method, 1)
    assert method(batches(1)[0]).isfinite().all()
    assert method.diagnostics["source_predictions"] == 1


def test_the_default_is_to_raise() -> None:
    method = adapted("tent", on_nonfinite="raise")
    diverges_at(method, 1)
    with pytest.raises(NonFiniteError, match=r"lower the step size.*on_nonfinite=\"source\""):
        method(batches(1)[0])
    with pytest.raises(ValueError, match=r"on_nonfinite must be 'raise' \(the default\) or 'source', got 'skip'"):
        adapted("tent", on_nonfinite="skip")
    with pytest.raises(TypeError, match=r"on_nonfinite is an argument of midway\.adapt"):
        midway.Tent(tiny_network(), on_nonfinite="source")  # type: ignore[call-arg]


def test_a_source_that_is_not_finite_either_is_refused() -> None:
    method = adapted("tent", Outside(tiny_network(), nan_for_bright), on_nonfinite="source")
    with pytest.raises(NonFiniteError, match=r"The state is as before this batch\.$"):
        method(torch.full((4, 3, 8, 8), 0.95))


def test_the_source_moves_and_is_copied_with_the_method() -> None:
    method = copy.deepcopy(adapted("bn", on_nonfinite="source")).double()
    diverges_at(method, 1)
    assert method(batches(1)[0].double()).isfinite().all()
    assert not any(key.startswith("fallback") for key in method.state_dict())
    assert method.num_trainable() == 0


def test_an_interrupt_leaves_the_state_as_before() -> None:
    method = adapted("tent")
    images = batches(1)[0]
    method(images)
    before, inner = method.snapshot(), method.step

    def interrupted(images: Tensor) -> Tensor:
        inner(images)
        raise KeyboardInterrupt

    method.step = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        method(images)
    assert_same_state(before, method.snapshot())


# ---- probabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [None, "guarded"])
def test_probabilities_are_warned_of_once(wrap: str | None) -> None:
    method = adapted("tent", nn.Sequential(*tiny_network().children(), nn.Softmax(dim=1)), wrap=wrap)
    with pytest.warns(UserWarning, match=r"returns probabilities .* Remove the softmax at its end") as caught:
        method(batches(1)[0])
    assert len(caught) == 1
    method(batches(1, side=24)[0])  # a second warning would be an error
    if wrap is None:
        assert caught[0].filename == __file__


@pytest.mark.parametrize("end", [nn.LogSoftmax(dim=1), nn.Identity(), nn.Sigmoid()])
def test_logits_are_not_taken_for_probabilities(end: nn.Module) -> None:
    adapted("bn", nn.Sequential(*tiny_network().children(), end))(batches(1)[0])


@pytest.mark.parametrize("logits", [None, (torch.zeros(6, 4),), torch.zeros(6), torch.zeros(5, 4)], ids=repr)
def test_a_step_that_returns_no_logits(logits: object) -> None:
    class Odd(Method):
        about = About("odd", "Odd", "-", "none", "nothing", "-", "1 F")

        def step(self, images: Tensor) -> Tensor:
            return logits  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"Odd.step must return logits \(6, classes\) for 6 images, it returned"):
        Odd(tiny_network())(batches(1, size=6)[0])


def test_the_source_that_predicts_for_a_method_learns_nothing() -> None:
    fallback = midway.adapt(midway.clustered(tiny_network()), "tent", on_nonfinite="source").fallback
    assert fallback is not None
    source = fallback.network
    one, other = batches(2)
    first = source(one)
    source(other)
    assert torch.equal(source(one), first)
