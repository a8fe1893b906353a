from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.image_weights import UnsupportedError, Weights, weights_by_image
from midway.adaptation.views import Fill, augmix_views, draw
from midway.methods.memo import MEMO, marginal_entropy
from midway.models import WideResNet
from midway.sampling import Randomness
from midway.testing import NORMS, Norm, batches, tiny_network

LR = 5.0  # large, so that a wrong step shows


class PriorNorm(nn.Module):
    """BatchNorm in the words of the paper: N / (N + 1) of the source's moments, 1 / (N + 1) of the batch's."""

    def __init__(self, layer: nn.BatchNorm2d, prior: float) -> None:
        super().__init__()
        self.layer, self.prior = layer, prior

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            share = self.prior / (self.prior + 1)
            mean = share * self.layer.running_mean + (1 - share) * x.mean(dim=(0, 2, 3))
            var = share * self.layer.running_var + (1 - share) * x.var(dim=(0, 2, 3), correction=1 if self.prior else 0)
        return nn.functional.batch_norm(x, mean, var, self.layer.weight, self.layer.bias, eps=self.layer.eps)


def run_by_image(network: nn.Module, weights: Weights, x: Tensor, *, source_share: float) -> Tensor:
    with weights_by_image(network, weights, len(x), source_share=source_share):
        logits: Tensor = network(x)
    return logits


def naive_memo(
    network: nn.Module, images: Tensor, *, views: int, lr: float, prior: float, steps: int = 1, fill: Fill = "grey"
) -> Tensor:
    """MEMO from its description: a copy of the network and an optimiser for each image."""
    generator = torch.Generator().manual_seed(0)
    answers = []
    for image in images:
        adapted = copy.deepcopy(network).requires_grad_(True)
        for name, module in list(adapted.named_children()):
            if isinstance(module, nn.BatchNorm2d):
                setattr(adapted, name, PriorNorm(module, prior))
        seen = augmix_views(image[None], draw(1, views, generator), fill=fill)[0]
        optimizer = torch.optim.SGD(adapted.parameters(), lr=lr)
        for _ in range(steps):
            mean = adapted(seen).softmax(dim=1).mean(dim=0)
            loss = -(mean * mean.log()).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            answers.append(adapted(image[None]))
    return torch.cat(answers)


CASES: list[tuple[Norm, dict[str, int]]] = [
    *((norm, {}) for norm in NORMS),
    ("batch", {"steps": 3}),
    ("batch", {"prior": 0}),
    ("layer", {"steps": 2}),
]


@pytest.mark.parametrize(("norm", "settings"), CASES, ids=str)
@pytest.mark.parametrize("at_once", [1, 2])
def test_agrees_with_a_naive_implementation(norm: Norm, settings: dict[str, int], at_once: int) -> None:
    images = batches(1, size=5)[0]
    expected = naive_memo(tiny_network(norm), images, **({"views": 6, "lr": LR, "prior": 16} | settings))  # type: ignore[arg-type]
    method = MEMO(tiny_network(norm), views=6, lr=LR, images_at_once=at_once, **settings)  # type: ignore[arg-type]
    torch.testing.assert_close(method(images), expected, rtol=1e-3, atol=1e-4)
    assert method.supports_many_images


def test_agrees_to_the_last_digits_in_double_precision() -> None:
    images = batches(1, size=3)[0].double()
    expected = naive_memo(tiny_network().double(), images, views=6, lr=LR, prior=16)
    method = MEMO(tiny_network().double(), views=6, lr=LR)
    method(images)  # settles what depends on the size of the images
    method.randomness = Randomness(0)
    torch.testing.assert_close(method.step(images), expected, rtol=1e-9, atol=1e-10)


def test_no_prior_affects_a_network_with_group_norm() -> None:
    images = batches(1, size=3)[0]
    answers = [MEMO(tiny_network("group"), views=6, lr=LR, prior=prior)(images) for prior in (0, 16)]
    assert torch.equal(*answers)


def test_as_published_the_border_is_red() -> None:
    images = batches(1, size=3)[0]
    published = midway.adapt(tiny_network("group"), "memo", preset="published", views=6, lr=LR)
    expected = naive_memo(tiny_network("group"), images, views=6, lr=LR, prior=0, fill="red")
    torch.testing.assert_close(published(images), expected, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(expected, MEMO(tiny_network("group"), views=6, lr=LR)(images), atol=1e-3)
    with pytest.raises(ValueError, match="fill must be 'grey' or 'red', got 'blue'"):
        MEMO(tiny_network(), fill="blue")  # type: ignore[arg-type]


def test_the_step_matters() -> None:
    images = batches(1, size=4)[0]
    moved, still = (MEMO(tiny_network(), views=6, lr=lr)(images) for lr in (LR, 0.0))
    assert (moved - still).abs().max() > 0.05
    assert moved.softmax(dim=1).amax(dim=1).mean() > still.softmax(dim=1).amax(dim=1).mean()


def test_marginal_entropy_by_hand_and_far_from_zero() -> None:
    probabilities = torch.tensor([[0.8, 0.2], [0.4, 0.6]])  # mean 0.6, 0.4
    expected = -(0.6 * math.log(0.6) + 0.4 * math.log(0.4))
    assert marginal_entropy(probabilities.log() + 100).item() == pytest.approx(expected)
    logits = torch.tensor([[500.0, 0.0, -500.0], [400.0, 0.0, -400.0]], requires_grad=True)
    marginal_entropy(logits).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_the_batch_an_image_comes_in_does_not_matter() -> None:
    images = batches(1, size=7)[0]
    whole, parts, single = (MEMO(tiny_network(), views=5, lr=LR) for _ in range(3))
    expected = whole(images)
    torch.testing.assert_close(torch.cat([parts(images[:3]), parts(images[3:])]), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat([single(one) for one in images.split(1)]), expected, rtol=1e-4, atol=1e-5)


def test_weights_are_the_sources_after_every_batch() -> None:
    method = MEMO(tiny_network(), views=4, lr=LR)
    before = copy.deepcopy(method.model.state_dict())
    method(batches(1)[0])
    assert all(torch.equal(value, before[key]) for key, value in method.model.state_dict().items())
    assert all("forward" not in module.__dict__ for module in method.model.modules())


class Odd(nn.Module):
    """Has a weight outside plain layers, and a convolution that pads in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 6, 3, bias=True, padding="same", padding_mode="reflect")
        self.scale = nn.Parameter(torch.rand(6, 1, 1))
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc((self.stem(x) * self.scale).relu().mean(dim=(2, 3)))
        return logits


def test_networks_that_do_not_batch_fall_back_by_themselves() -> None:
    images = batches(1, size=3)[0]
    with torch.random.fork_rng():
        network = Odd()
    method = MEMO(network, views=4, lr=LR)
    torch.testing.assert_close(
        method(images), naive_memo(network, images, views=4, lr=LR, prior=16), rtol=1e-3, atol=1e-4
    )
    assert not method.supports_many_images


class Rich(nn.Module):
    """Grouped, strided, dilated and biased convolutions, layers used twice, tokens, LayerNorm without shift."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.norm = nn.GroupNorm(2, 8)
        self.tokens = nn.LayerNorm(8, bias=False)
        self.mix = nn.Linear(8, 8, bias=False)
        self.wide = nn.Conv1d(8, 8, 3)
        self.batch = nn.BatchNorm1d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.deep(self.deep(self.stem(x)).relu_()))
        tokens = self.mix(self.tokens(x.flatten(2).mT)).relu()
        logits: Tensor = self.fc(self.batch(self.wide(tokens.mT).mean(dim=2)))
        return logits


@pytest.mark.parametrize(
    "make",
    [Rich, lambda: WideResNet(depth=10, width=1), lambda: midway.models.create("resnet20")],
    ids=["rich", "wide", "resnet20"],
)
def test_gradients_and_answers_by_image_are_those_of_each_image(make: type[nn.Module]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = make().eval().requires_grad_(False)
        views = torch.rand(3, 4, 3, 12, 12)
    shared = {name: p.expand(3, *p.shape).requires_grad_() for name, p in network.named_parameters()}

    def gradients(weights: dict[str, Tensor], x: Tensor) -> tuple[Tensor, ...]:
        logits = run_by_image(network, weights, x.flatten(0, 1), source_share=0.9)
        return torch.autograd.grad(marginal_entropy(logits.unflatten(0, (len(x), -1))).sum(), list(weights.values()))

    together = gradients(shared, views)
    for i in range(3):
        alone = {name: p[None].clone().requires_grad_() for name, p in network.named_parameters()}
        for name, one, all_ in zip(alone, gradients(alone, views[i : i + 1]), together, strict=True):
            torch.testing.assert_close(all_[i : i + 1], one, rtol=1e-3, atol=1e-6, msg=name)
    apart = {name: p - 0.1 * g for (name, p), g in zip(shared.items(), together, strict=True)}
    with torch.no_grad():
        answers = run_by_image(network, apart, views.flatten(0, 1), source_share=0.9).unflatten(0, (3, 4))
        for i in range(3):
            own = {name: values[i : i + 1] for name, values in apart.items()}
            alone_answers = run_by_image(network, own, views[i], source_share=0.9)
            torch.testing.assert_close(answers[i], alone_answers, rtol=1e-3, atol=1e-4)
    assert all("forward" not in module.__dict__ for module in network.modules())


class Sideways(nn.Module):
    """Reaches for the weights of a layer behind its back, besides calling it or not."""

    def __init__(self, *, calls: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.unused, self.calls = nn.Linear(3, 4), nn.Linear(2, 2), calls

    def forward(self, x: Tensor) -> Tensor:
        x = x.mean(dim=(2, 3))
        logits: Tensor = x @ self.fc.weight.T + self.fc.bias
        return logits + self.fc(x).square() if self.calls else logits


@pytest.mark.parametrize("calls", [False, True])
def test_weights_used_behind_a_layers_back_are_noticed(calls: bool) -> None:
    with torch.random.fork_rng():
        network = Sideways(calls=calls)
    images = batches(1, size=3)[0]
    method = MEMO(network, views=4, lr=LR)
    expected = naive_memo(network, images, views=4, lr=LR, prior=16)
    torch.testing.assert_close(method(images), expected, rtol=1e-3, atol=1e-4)
    assert not method.supports_many_images


def test_weights_that_the_pass_does_not_meet_are_noticed() -> None:
    class Spare(nn.Linear):
        pass

    network = nn.ModuleDict({"used": nn.Linear(3, 2), "spare": Spare(3, 2)}).requires_grad_(False)
    network.forward = lambda x: network["used"](x)  # type: ignore[method-assign]
    weights = {name: p.expand(2, *p.shape) for name, p in network.named_parameters()}
    with pytest.raises(UnsupportedError, match=r"spare.bias, spare.weight"):
        run_by_image(network, weights, torch.rand(4, 3), source_share=0)
    tied = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3)).requires_grad_(False).eval()
    tied[2].weight = tied[1].weight
    weights = {name: p.expand(2, *p.shape) for name, p in tied.named_parameters()}
    with pytest.raises(UnsupportedError, match="2 shares its weights"):
        run_by_image(tied, weights, torch.rand(4, 3), source_share=0)
    assert all("forward" not in module.__dict__ for module in tied.modules())


def test_the_embedded_network_gets_the_same_answers_either_way() -> None:
    model = midway.models.load("wrn16_2.cifar10")
    images = midway.data.load("cifar10-mini").first(3)
    batch = next(iter(midway.streams.pure(images, "gaussian_noise"))).images
    one, many = MEMO(model, views=4, images_at_once=1), MEMO(model, views=4, images_at_once=3)
    torch.testing.assert_close(many(batch), one(batch), rtol=1e-3, atol=1e-3)
    assert many.supports_many_images


def test_published_settings_follow_the_size_of_the_images() -> None:
    small, large = MEMO(tiny_network()), MEMO(tiny_network(), views=2)
    small(batches(1, size=1)[0])
    large(batches(1, size=1, side=128)[0])
    assert repr(small).startswith("MEMO(TinyNetwork, views=32, lr=0.005, crop='pad', steps=1, prior=16")
    assert repr(large).startswith("MEMO(TinyNetwork, views=2, lr=0.00025, crop='resize', steps=1, prior=16")


def test_steps_that_are_not_finite_are_not_taken() -> None:
    class Fragile(nn.Module):
        """Has no gradient at dark images: the square root of 0."""

        def __init__(self) -> None:
            super().__init__()
            self.fc, self.gain = nn.Linear(3, 4), nn.Linear(1, 1, bias=False)
            nn.init.ones_(self.gain.weight)

        def forward(self, x: Tensor) -> Tensor:
            light = (x.mean(dim=(1, 2, 3)) - 0.3).relu().unsqueeze(1)
            logits: Tensor = self.fc(x.mean(dim=(2, 3))) * (1 + self.gain(light).sqrt())
            return logits

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Fragile()
    images = batches(1, size=3)[0].clamp(min=0.6)
    images[1] = 0
    method, still = MEMO(network, views=1, lr=LR, crop="pad"), MEMO(network, views=1, lr=0.0, crop="pad")
    moved, unmoved = method(images), still(images)
    assert method.diagnostics["skipped_steps"] == 1
    assert torch.equal(moved[1], unmoved[1])
    assert moved.isfinite().all()
    assert not torch.allclose(moved[0], unmoved[0], atol=1e-3)
    assert method.supports_many_images


@pytest.mark.parametrize("name", ["memo", "dua"])
def test_networks_that_need_two_images(name: str) -> None:
    body = list(tiny_network().children())[:8]
    vectors = nn.Sequential(*body, nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 4)).eval()
    settings = {"views": 4} if name == "memo" else {"copies": 4}
    assert midway.adapt(vectors, name, **settings)(batches(1)[0]).shape == (12, 4)


def test_the_entropy_of_an_average_of_two_classes() -> None:
    assert marginal_entropy(torch.tensor([[200.0, 0.0], [0.0, 200.0]])).exp() == 2


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match="lr must be at least 0, or None"):
        midway.MEMO(tiny_network(), lr=-1)
    with pytest.raises(ValueError, match="views must be at least 1, or None, got 0"):
        MEMO(tiny_network(), views=0)
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        MEMO(tiny_network(), steps=0)
    with pytest.raises(ValueError, match="prior must be at least 0, got -1"):
        MEMO(tiny_network(), prior=-1)
    with pytest.raises(ValueError, match="images_at_once must be at least 1, or None, got 0"):
        MEMO(tiny_network(), images_at_once=0)
    with pytest.raises(ValueError, match="no weights to adapt"):
        MEMO(nn.Flatten())
