from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.wrappers.guarded import _Summary
from midway.bench.entries import parse_entries
from midway.functional import log_mean_softmax
from midway.methods import About, AdaptiveClassifier, Method
from midway.testing import CONTRACT, Factory, batches, tiny_network

WRAPPED: dict[str, Factory] = {
    "episodic": lambda model: midway.Episodic(midway.Tent(model)),
    "episodic, after": lambda model: midway.Episodic(midway.Tent(model, lr=1e-2, predict="after")),
    "guarded": lambda model: midway.Guarded(midway.Tent(model, lr=1e-2)),
    "guarded, always suspicious": lambda model: midway.Guarded(midway.Tent(model, lr=0.5), min_diversity=1.0),
    "nested": lambda model: midway.Guarded(midway.Episodic(midway.SAR(model, margin=2.0)), min_diversity=0.3),
    "the other way round": lambda model: midway.Episodic(midway.Guarded(midway.Tent(model, lr=0.5), min_diversity=0.3)),
    "window": lambda model: midway.Window(midway.Tent(model, lr=1e-2), size=5),
    "window, larger than a batch": lambda model: midway.Window(midway.SAR(model, margin=2.0)),
    "periodic": lambda model: midway.Periodic(midway.Tent(model, lr=1e-2), every=2),
    "with chains": lambda model: midway.Guarded(midway.TEA(model, langevin_steps=1, buffer_size=50)),
}


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", WRAPPED)
def test_contract(name: str, check: Callable[[Factory], None]) -> None:
    check(WRAPPED[name])


def test_episodic_predicts_every_batch_like_a_new_method() -> None:
    method = midway.Episodic(midway.Tent(tiny_network(), lr=1e-2, predict="after"))
    for images in batches(3):
        assert torch.equal(method(images), midway.Tent(tiny_network(), lr=1e-2, predict="after")(images))


def naive_window(network: nn.Module, images: Tensor, size: int, lr: float) -> Tensor:
    """Single images with TENT: a list as the window, train-mode BatchNorm, Adam."""
    network = network.train().requires_grad_(False)
    layers = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    affine = [p.requires_grad_() for m in layers for p in (m.weight, m.bias)]
    optimizer = torch.optim.Adam(affine, lr=lr)
    window: list[Tensor] = []
    predictions = []
    for number, image in enumerate(images):
        if len(window) < size:
            window.append(image)
        else:
            window[number % size] = image
        logits = network(torch.stack(window))
        predictions.append(logits[number % size].detach())
        if number % size == size - 1:
            p = logits.softmax(dim=1)
            optimizer.zero_grad()
            (-(p * p.log()).sum(dim=1).mean()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return torch.stack(predictions)


@pytest.mark.parametrize("size", [1, 4, 50])
def test_a_window_predicts_single_images_and_adapts_when_it_is_new(size: int) -> None:
    images = torch.cat(batches(2)).double()
    expected = naive_window(tiny_network().double(), images, size, 1e-2)
    method = midway.Window(midway.Tent(tiny_network().double(), lr=1e-2), size=size)
    found = torch.cat([method(image) for image in images.split(1)])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert method.diagnostics.get("updates", 0) == len(images) // size
    method.reset()
    torch.testing.assert_close(torch.cat([method(few) for few in images.split(7)]), expected, rtol=1e-5, atol=1e-6)


def test_a_window_without_batch_statistics_passes_single_images() -> None:
    sizes: list[int] = []
    method = midway.Window(midway.Tent(tiny_network("group"), lr=1e-2), size=4)
    method.model.register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    for image in batches(1)[0].split(1):
        method(image)
    assert sizes[-8:] == [1, 1, 1, 4, 1, 1, 1, 4]  # after the passes that try out the network


def test_a_window_starts_anew_with_images_of_another_size() -> None:
    method = midway.Window(midway.BN(tiny_network()), size=4)
    for side in (16, 24, 16):
        assert method(batches(1, size=3, side=side)[0]).isfinite().all()
    assert "updates" not in method.diagnostics
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        midway.Window(midway.BN(tiny_network()), size=0)
    assert midway.adapt(tiny_network(), "tent", wrap="window").about.title == "TENT, window"


def test_repr_shows_what_is_inside() -> None:
    inner = midway.Tent(tiny_network(), lr=0.5)
    assert repr(midway.Episodic(inner)) == f"Episodic({inner!r})"
    nested = midway.Guarded(midway.Episodic(inner), min_diversity=0.7)
    assert repr(nested) == f"Guarded(Episodic({inner!r}), min_diversity=0.7, entropy_range=(0.001, 0.99))"
    assert (nested.about.name, nested.about.title) == ("guarded(episodic(tent))", "TENT, episodic, guarded")
    assert nested.about.paradigm == "batch"


def test_the_given_method_never_changes_and_the_wrapper_starts_from_its_source() -> None:
    inner = midway.Tent(tiny_network(), lr=1e-2)
    first, second, third = batches(3)
    inner(first)
    guarded = midway.Guarded(inner)
    assert torch.equal(guarded(second), midway.Tent(tiny_network(), lr=1e-2)(second))
    alone = midway.Tent(tiny_network(), lr=1e-2)
    alone(first)
    assert torch.equal(inner(third), alone(third))


def test_only_methods_are_wrapped() -> None:
    with pytest.raises(TypeError, match=r"Episodic wraps a method, such as Tent\(model\), got TinyNetwork"):
        midway.Episodic(tiny_network())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="min_diversity must be a share of the classes from 0 to 1, got 80"):
        midway.Guarded(midway.Tent(tiny_network()), min_diversity=80)
    with pytest.raises(ValueError, match="entropy_range must be two shares"):
        midway.Guarded(midway.Tent(tiny_network()), entropy_range=(0.9, 0.1))


def test_states_of_other_wrappings_are_refused() -> None:
    state = midway.Guarded(midway.Tent(tiny_network())).state_dict()
    with pytest.raises(ValueError, match=r"the state is of guarded\(tent\), this is episodic\(tent\)"):
        midway.Episodic(midway.Tent(tiny_network())).load_state_dict(state)
    with pytest.raises(ValueError, match=r"the state is of min_diversity=0\.6, this method has min_diversity=0\.5"):
        midway.Guarded(midway.Tent(tiny_network()), min_diversity=0.5).load_state_dict(state)
    with pytest.raises(ValueError, match=r"the state is of lr=None, this method has lr=0\.1"):
        midway.Guarded(midway.Tent(tiny_network(), lr=0.1)).load_state_dict(state)


def test_moving_to_another_dtype_takes_the_good_state_along() -> None:
    method = midway.Guarded(midway.Tent(tiny_network(), lr=0.5), min_diversity=0.3)
    first, second = batches(2)
    method(first)
    method.double()
    method(second.double())
    assert all(value.dtype == torch.float64 for value in method.good["tensors"].values())


class Script(Method):
    """Predicts from a script, one batch after the other, and adds 1 to a weight each time."""

    about = About("script", "Script", "-", "none", "a weight", "before", "1 F")

    def __init__(self, model: nn.Module, *, script: tuple[str, ...]) -> None:
        super().__init__(model)
        self.script = script
        self.weight = self.add_state("weight", 0)

    def step(self, images: Tensor) -> Tensor:
        kind = self.script[self.weight]
        self.weight += 1
        logits: Tensor = self.model(images)
        certain = torch.full_like(logits, -60.0)
        if kind == "one class":
            certain[:, 2] = 0.0
            return certain / 20
        if kind == "certain":
            return certain.scatter(1, torch.arange(len(logits)).remainder(4)[:, None], 0.0)
        if kind == "one prediction less":  # one image of the rarest class that is named gets the most common one
            named, counts = logits.argmax(dim=1).unique(return_counts=True)
            changed = logits.clone()
            changed[logits.argmax(dim=1) == named[counts.argmin()], named[counts.argmax()]] += 60.0
            return changed
        return {"well": logits, "nan": logits * float("nan"), "uniform": 0.01 * logits}[kind]


def test_rollbacks_are_counted_across_episodes(sharp_network: Callable[..., nn.Module]) -> None:
    network, images = sharp_network(100, norm="group"), batches(1, size=48)[0]
    episodes = midway.Episodic(midway.Guarded(Script(network, script=("uniform",))))
    for batch in (1, 2, 3):
        episodes(images)
        assert episodes.diagnostics["rollbacks"] == batch
    episodes.reset()
    assert episodes.diagnostics == {}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("one class", "few_classes"), ("certain", "entropy"), ("uniform", "entropy"), ("nan", "not_finite")],
)
def test_each_sign_of_a_collapse_rolls_back(kind: str, reason: str, sharp_network: Callable[..., nn.Module]) -> None:
    network = sharp_network(100, norm="group")
    images = batches(1, size=48)[0]
    guarded = midway.Guarded(Script(network, script=("well", "well", kind, "well")))
    weights = []
    for expected in (True, True, False):
        prediction = guarded(images)
        weights.append(guarded.method.weight)
        assert torch.equal(prediction, midway.Source(network)(images))  # also in place of the collapsed prediction
        assert ("rollbacks" not in guarded.diagnostics) == expected
    assert weights == [1, 2, 1]  # 1 had predicted the second batch well; what came after it never proved itself
    assert guarded.diagnostics == {"rollbacks": 1, f"rollbacks_{reason}": 1}
    guarded.reset()
    assert guarded.diagnostics == {}


def test_states_that_name_nearly_the_same_classes_on_both_sides_of_the_limit_are_no_collapse(
    sharp_network: Callable[..., nn.Module],
) -> None:
    network, images = sharp_network(100, norm="group"), batches(1, size=48)[0]
    limit = _Summary.of(midway.Source(network)(images)).diversity
    guarded = midway.Guarded(Script(network, script=("well", "one prediction less")), min_diversity=limit)
    guarded(images)
    prediction = guarded(images)
    assert _Summary.of(prediction).diversity < limit
    assert guarded.diagnostics == {}


def test_a_batch_of_one_class_is_no_collapse_if_the_good_state_says_the_same() -> None:
    class Bright(nn.Module):
        """Class 0 for dark images, class 1 for bright ones."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(2)

        def forward(self, images: Tensor) -> Tensor:
            bright = images.mean(dim=(1, 2, 3))
            return torch.stack([0.5 - bright, bright - 0.5], dim=1) * 4 * self.norm.weight + self.norm.bias

    stream = [torch.full((8, 3, 4, 4), value) for value in (0.1, 0.9, 0.1, 0.9)]
    alone, guarded = midway.Tent(Bright(), lr=1e-3), midway.Guarded(midway.Tent(Bright(), lr=1e-3))
    for images in stream:
        assert torch.equal(alone(images), guarded(images))
    assert guarded.diagnostics == {}


def coloured(labels: Tensor, seed: int) -> Tensor:
    """Noisy images of four classes: dark or bright, plain or striped."""
    generator = torch.Generator().manual_seed(seed)
    stripes = torch.arange(16).remainder(2).float().mul(0.4).sub(0.2)
    base = torch.where(labels < 2, 0.35, 0.65).view(-1, 1, 1, 1) + labels.remainder(2).view(-1, 1, 1, 1) * stripes
    return (base + 0.25 * torch.randn(len(labels), 3, 16, 16, generator=generator)).clamp(0, 1)


def trained_network() -> nn.Module:
    network = tiny_network("group").train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for seed in range(60):
        labels = torch.arange(32).remainder(4)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(coloured(labels, seed)), labels).backward()
        optimizer.step()
    return network.eval()


def accuracy(method: AdaptiveClassifier, stream: list[Tensor]) -> float:
    predictions = [method(coloured(labels, seed)).argmax(dim=1) for seed, labels in enumerate(stream, start=1000)]
    return 100 * (torch.cat(predictions) == torch.cat(stream)).float().mean().item()


@pytest.mark.parametrize("order", ["by class", "mixed"])
def test_guarded_keeps_the_accuracy_where_tent_with_an_absurd_step_size_collapses(order: str) -> None:
    network = trained_network()
    if order == "by class":
        stream = [torch.full((20,), label) for label in range(4) for _ in range(4)]
    else:
        stream = [torch.arange(20).remainder(4) for _ in range(16)]
    source = accuracy(midway.Source(network), stream)
    tent = accuracy(midway.Tent(network, lr=2.0), stream)
    guarded_method = midway.Guarded(midway.Tent(network, lr=2.0))
    guarded = accuracy(guarded_method, stream)
    assert source > 95
    assert tent < 50
    assert guarded > source - 3
    assert guarded_method.diagnostics["rollbacks"] >= 3


def test_wrapped_methods_are_evaluated_like_others() -> None:
    stream = midway.streams.pure(midway.data.load("cifar10-mini").first(60), "clean", batch_size=20)
    bn = midway.evaluate(midway.BN(tiny_network(classes=10)), stream)
    wrapped = midway.Guarded(midway.Episodic(midway.Tent(tiny_network(classes=10))))
    episodic = midway.evaluate(wrapped, stream)
    assert wrapped.about.name == "guarded(episodic(tent))"
    own = {"min_diversity": 0.6, "entropy_range": [0.001, 0.99]}
    assert episodic.hyperparameters == own | {
        "optimizer": "adam",
        "lr": 1e-3,
        "betas": [0.9, 0.999],
        "steps": 1,
        "predict": "before",
        "loss": "entropy",
    }
    assert episodic.batch_accuracies == bn.batch_accuracies  # before its only update, TENT predicts like BN


def test_wrappers_by_name_and_in_plans() -> None:
    assert repr(midway.adapt(tiny_network(), "bn", wrap="episodic")) == "Episodic(BN(TinyNetwork, prior=0))"
    (entry,) = parse_entries('tent(wrap="guarded", lr=0.5)')
    assert entry.complete_settings(0)["wrap"] == "guarded"
    method = midway.adapt(tiny_network(), "tent", **entry.settings)
    assert isinstance(method, midway.Guarded)
    assert method.hyperparameters["lr"] == 0.5
    message = "wrap must be 'episodic', 'guarded', 'mirrored', 'periodic', 'window', .* got 'foil'"
    with pytest.raises(ValueError, match=message):
        midway.adapt(tiny_network(), "tent", wrap="foil")


def test_a_window_predicts_with_mirrored_views_between_updates_too() -> None:
    images = torch.rand(10, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    mirrored = midway.adapt(tiny_network(), "bn", views="mirror", wrap="window")
    predictions = mirrored(images)
    plain = midway.adapt(tiny_network(), "bn", wrap="window")
    expected = [plain(images), midway.adapt(tiny_network(), "bn", wrap="window")(images.flip(-1))]
    torch.testing.assert_close(predictions, log_mean_softmax(expected))
    with pytest.raises(ValueError, match=r"Mirrored cannot wrap Window: .* Window\(Mirrored\(method\)\)"):
        midway.Mirrored(plain)


def test_a_window_takes_signals_and_warns_nobody_of_single_images() -> None:
    network = nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    signals = torch.rand(6, 2, 20)
    predictions = midway.adapt(network, "tent", wrap="window")(signals)
    assert predictions.shape == (6, 3)
    method = midway.Periodic(midway.Window(midway.Tent(network)))
    torch.testing.assert_close(torch.cat([method(signal) for signal in signals.split(1)]), predictions)


def test_mirrored_averages_the_predictions_of_image_and_mirror_image() -> None:
    network, (images, _, _) = tiny_network(), batches(3)
    found = midway.adapt(network, "bn", views="mirror")(images)
    plain = midway.BN(network)
    expected = (plain(images).softmax(dim=1) + plain(images.flip(-1)).softmax(dim=1)) / 2
    torch.testing.assert_close(found.softmax(dim=1), expected)
    mita = midway.adapt(network, "mita", views="mirror", keep_confidence=False)
    inner = midway.MITA(network, keep_confidence=False)
    expected = inner(images).softmax(dim=1)
    with torch.no_grad():
        expected = (expected + inner.model(inner.adapted_images.flip(-1)).softmax(dim=1)) / 2
    torch.testing.assert_close(mita(images).softmax(dim=1), expected)
    cost = midway.cost.measure_cost(midway.adapt(network, "tent", views="mirror"), images)
    assert (cost.forward_passes, cost.backward_passes) == (2, 1)
    with pytest.raises(ValueError, match="views must be 'mirror', or None for the image alone, got 'flip'"):
        midway.adapt(network, "bn", views="flip")


def test_a_reset_within_a_batch_also_forgets_kinds_of_images() -> None:
    network, (first, second, _) = tiny_network(), batches(3)
    episodic = midway.adapt(network, "bn", statistics="clustered", wrap="episodic")
    episodic(first)
    expected = midway.adapt(network, "bn", statistics="clustered")(second)
    torch.testing.assert_close(episodic(second), expected, rtol=0, atol=0)
