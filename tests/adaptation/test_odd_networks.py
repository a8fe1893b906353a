"""Networks as people write them, beyond stacks of torch's layers."""

from __future__ import annotations

import copy
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import midway
from midway.methods import Method
from midway.testing import NORMS, batches, tiny_network

ALL = [name for name in midway.methods.names() if "rotation head" not in midway.methods.find(name).about.needs]
IMAGES = batches(1, size=6)[0]


class HomeMadeGroupNorm(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.groups, self.weight, self.bias)


class Views(nn.Module):
    """Flattens by ``view``, which the channels-last layout does not allow; its head is not registered last."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.conv, self.norm = nn.Linear(8, 4), nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.embed = nn.Linear(8 * 64, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        logits: Tensor = self.head(F.relu(self.embed(x.view(x.size(0), -1))))
        return logits


class TwoNames(nn.Module):
    """Has its head under two names."""

    def __init__(self, network: nn.Sequential) -> None:
        super().__init__()
        self.net, self.fc = network, network[-1]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits


class Thrifty(nn.Module):
    """Runs its layers again for the gradients."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.net = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = checkpoint(self.net, x, use_reentrant=False)
        return logits


class Cache(nn.Module):
    """Has a buffer that follows the size of the images, and one that is made at the first."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.net = network
        self.register_buffer("place", torch.zeros(1, 1, 16, 16), persistent=False)
        self.register_buffer("mask", None)

    def forward(self, x: Tensor) -> Tensor:
        if self.place.shape[-1] != x.shape[-1]:
            self.place = torch.zeros(1, 1, *x.shape[2:])
        if self.mask is None:
            self.mask = torch.ones(1)
        logits: Tensor = self.net((x + self.place) * self.mask)
        return logits


class Counted(nn.Module):
    """Has whole numbers among its parameters, before all others."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.order = nn.Parameter(torch.arange(4), requires_grad=False)
        self.net = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)[:, self.order]
        return logits


def fresh(make: type[nn.Module], *arguments: nn.Module) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(*arguments).eval()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ALL)
def test_a_home_made_group_norm(name: str) -> None:
    network = tiny_network("group")
    for place, layer in enumerate(network):
        if isinstance(layer, nn.GroupNorm):
            network[place] = HomeMadeGroupNorm(layer.num_groups, layer.num_channels)
    assert midway.adapt(network, name)(IMAGES).isfinite().all()


@pytest.mark.parametrize("wrap", [None, "episodic", "guarded"])
@pytest.mark.parametrize("name", ALL)
def test_a_network_that_takes_only_the_plain_layout(name: str, wrap: str | None) -> None:
    network = fresh(Views)
    adapted = midway.adapt(network, name, wrap=wrap)
    first = adapted(IMAGES)
    assert first.isfinite().all()
    adapted.reset()
    assert adapted(IMAGES).equal(first)
    if name == "source":
        torch.testing.assert_close(first, network(IMAGES))
    with pytest.raises(ValueError, match="the model does not accept images of shape"):
        adapted(torch.rand(6, 3, 12, 12))
    assert "embed" not in repr(adapted)


def test_a_refusal_has_the_words_of_the_network_in_its_own_layout() -> None:
    with pytest.raises(ValueError, match=r"does not accept images of shape \(6, 3, 12, 12\): mat1 and mat2 shapes"):
        midway.adapt(fresh(Views), "tent")(torch.rand(6, 3, 12, 12))


def test_the_head_is_found_whatever_the_order_and_the_size() -> None:
    class Digits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head, self.embed = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(16, 10), nn.Linear(8 * 49, 16)

        def forward(self, x: Tensor) -> Tensor:
            x = F.max_pool2d(F.relu(self.conv(x)), 4).flatten(1)
            logits: Tensor = self.head(F.relu(self.embed(x)))
            return logits

    assert midway.LAME(fresh(Digits)).head == "head"
    assert midway.T3A(fresh(Views)).head == "head"


@pytest.mark.parametrize("method", [midway.T3A, midway.LAME])
def test_a_layer_that_does_not_make_the_logits_is_no_head(method: type[Method]) -> None:
    with pytest.raises(ValueError, match=r"'embed' has 8 outputs, the model 4 logits: give head='...'"):
        method(fresh(Views), head="embed")(IMAGES)  # type: ignore[call-arg]


@pytest.mark.parametrize("size", [1, 6])
def test_memo_on_a_layer_with_two_names(size: int) -> None:
    plain, named = (midway.MEMO(network, views=4, lr=1.0) for network in (tiny_network(), TwoNames(tiny_network())))
    for images in (*IMAGES.split(size), *IMAGES.split(size)):
        assert named(images).equal(plain(images))
    assert named.model.get_submodule("fc").weight.shape == (4, 8)
    assert isinstance(named.model.get_submodule("fc").weight, nn.Parameter)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated:FutureWarning")
def test_memo_on_weights_that_are_computed_from_others() -> None:
    network = tiny_network()
    torch.nn.utils.weight_norm(network[0])
    torch.testing.assert_close(midway.MEMO(network, views=4)(IMAGES), midway.MEMO(tiny_network(), views=4)(IMAGES))


@pytest.mark.parametrize("name", ALL)
def test_layers_that_run_again_for_their_gradients(name: str) -> None:
    plain, thrifty = (midway.adapt(network, name) for network in (tiny_network(), Thrifty(tiny_network())))
    for _ in range(2):
        torch.testing.assert_close(thrifty(IMAGES), plain(IMAGES))


@pytest.mark.parametrize("name", ALL)
def test_buffers_that_change_their_size(name: str) -> None:
    adapted = midway.adapt(Cache(tiny_network()), name)
    first = adapted(IMAGES)
    other = midway.adapt(Cache(tiny_network()), name)
    other.load_state_dict(adapted.state_dict())
    if name in ("tea", "mita"):  # their chains have one size until a reset
        adapted.reset()
    adapted(torch.rand(6, 3, 24, 24, generator=torch.Generator().manual_seed(0)))
    adapted.reset()
    assert adapted(IMAGES).equal(first)
    assert other(IMAGES).equal(adapted(IMAGES))


@pytest.mark.parametrize("name", ALL)
def test_whole_numbers_among_the_parameters(name: str) -> None:
    counted = Counted(tiny_network())
    torch.testing.assert_close(midway.adapt(counted, name)(IMAGES), midway.adapt(tiny_network(), name)(IMAGES))
    result = midway.evaluate(counted, [(IMAGES, torch.zeros(len(IMAGES), dtype=torch.long))])
    assert result.images == len(IMAGES)


@pytest.mark.parametrize("name", ["shot", "pl"])
def test_all_that_can_move_moves(name: str) -> None:
    where = {"shot": "body", "pl": "all"}[name]
    assert midway.adapt(Counted(tiny_network()), name, trainable=where)(IMAGES).isfinite().all()


@pytest.mark.parametrize("name", ["t3a", "lame"])
def test_a_compiled_network_has_a_head_for_every_size_of_batch(name: str) -> None:
    compiled = torch.compile(tiny_network(), backend="eager")
    adapted, plain = midway.adapt(compiled, name), midway.adapt(tiny_network(), name)  # type: ignore[arg-type]
    for images in (IMAGES, IMAGES[:1], IMAGES):
        torch.testing.assert_close(adapted(images), plain(images))


@pytest.mark.parametrize("name", ["tent", "mita", "memo", "shot"])
def test_half_precision_is_refused_later_too(name: str) -> None:
    adapted = midway.adapt(tiny_network(), name)
    with pytest.raises(TypeError, match="too coarse for the small updates"):
        adapted.half()
    assert adapted(IMAGES).isfinite().all()


@pytest.mark.parametrize("name", ALL)
def test_what_moves_cannot_be_frozen_from_outside(name: str) -> None:
    frozen, plain = midway.adapt(tiny_network(), name).requires_grad_(False), midway.adapt(tiny_network(), name)
    for _ in range(2):
        assert frozen(IMAGES).equal(plain(IMAGES))
    frozen.reset()
    plain.reset()
    assert frozen(IMAGES).equal(plain(IMAGES))


def test_a_network_that_does_not_leave_training_mode() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny_network()

        def train(self, mode: bool = True) -> Stubborn:
            return self

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x)
            return logits

    stubborn = Stubborn()
    stubborn.net.train()
    source = midway.Source(stubborn)
    first = source(IMAGES)
    assert first.equal(midway.Source(tiny_network())(IMAGES))
    assert source(IMAGES).equal(first)


@pytest.mark.parametrize("norm", NORMS)
def test_the_layout_of_usual_networks_is_the_fast_one(norm: str) -> None:
    assert midway.Tent(tiny_network(norm)).channels_last == (norm in ("batch", "instance"))  # type: ignore[arg-type]


def test_tensors_that_a_network_keeps_with_their_graphs() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny_network()

        def forward(self, x: Tensor) -> Tensor:
            self.logits: Tensor = self.net(x)
            return self.logits

    keeps = Keeps()
    keeps(IMAGES)
    adapted = midway.Tent(keeps)
    adapted(IMAGES)
    again = copy.deepcopy(adapted)
    assert again(IMAGES).equal(adapted(IMAGES))
    assert midway.Guarded(adapted)(IMAGES).shape == (6, 4)


def test_what_cannot_be_copied_says_why() -> None:
    locked = tiny_network()
    locked.lock = threading.Lock()
    with pytest.raises(TypeError, match=r"must support copy.deepcopy, which failed: cannot pickle"):
        midway.Source(locked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that lazy layers are new
        lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
    with pytest.raises(TypeError, match="lazy layers without weights: call it once"):
        midway.Source(lazy)
