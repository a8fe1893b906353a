"""What surrounds a method in a service: modules around it, shells around its network, and networks with habits."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import midway
from midway.testing import batches, tiny_network

IMAGES = batches(3)


class InPlace(nn.Module):
    """Normalises its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network("group")

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images.sub_(0.5).div_(0.25))
        return logits


class OutOfPlace(InPlace):
    """The same without a change of its input."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.clone())


class Counting(nn.Module):
    """Writes into a buffer in every pass."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network()
        self.register_buffer("mean", torch.tensor(0.5))

    def forward(self, images: Tensor) -> Tensor:
        self.mean.lerp_(images.mean().detach(), 0.1)
        logits: Tensor = self.network(images - self.mean)
        return logits


class Calibrated(nn.Module):
    """Has a temperature in float64 before its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
        self.network = tiny_network()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images) / self.temperature
        return logits


class Doubled(nn.Module):
    """Averages over images and mirror images in one pass."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(torch.cat([images, images.flip(-1)]))
        return logits.unflatten(0, (2, -1)).mean(dim=0)


class OtherTensor(torch.Tensor):
    """A subclass, as other libraries have."""


def saved(method: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("statistics", ["clustered", "unmix"])
def test_shells_of_a_network_change_no_statistics(statistics: str) -> None:
    network = tiny_network()
    expected = [midway.adapt(network, "bn", statistics=statistics)(images) for images in IMAGES]
    for shell in (nn.DataParallel(network), torch.compile(network, backend="eager")):
        adapted = [midway.adapt(shell, "bn", statistics=statistics)(images) for images in IMAGES]
        assert all(map(torch.equal, adapted, expected))


@pytest.mark.parametrize("shell", [nn.DataParallel, lambda network: torch.compile(network, backend="eager")])
@pytest.mark.parametrize("statistics", [None, "clustered"])
def test_hooks_that_a_copy_would_lose_are_refused(shell: Any, statistics: str | None) -> None:
    network = shell(tiny_network())
    network.register_forward_hook(lambda module, inputs, output: output / 2)
    with pytest.raises(ValueError, match=r"the hooks of the .* would be lost: register them on the network inside"):
        midway.adapt(network, "bn", statistics=statistics)


@pytest.mark.filterwarnings("ignore:(BN|DUA) changes nothing")
@pytest.mark.parametrize("name", midway.methods.names())
def test_networks_that_change_their_input(name: str) -> None:
    if name in ("ttt", "note", "dda"):
        pytest.skip("needs another network or more images")
    settings = {"views": 2} if name in ("memo", "cotta") else {}
    changing, unchanging = (midway.adapt(network, name, **settings) for network in (InPlace(), OutOfPlace()))
    for images in IMAGES:
        given = images.clone()
        torch.testing.assert_close(changing(given), unchanging(images))
        assert torch.equal(given, images)


def test_statistics_are_those_of_the_batch_before_the_hooks_of_the_network() -> None:
    halved, front = tiny_network(), nn.Sequential(midway.models.Normalize((0.0,) * 3, (2.0,) * 3), tiny_network())
    halved.register_forward_pre_hook(lambda module, inputs: (inputs[0] / 2,))
    hooked, plain = (midway.adapt(network) for network in (halved, front))
    for images in IMAGES:
        torch.testing.assert_close(hooked(images), plain(images))


def test_networks_that_repeat_their_images_are_named() -> None:
    adapted = midway.adapt(Doubled())
    with pytest.warns(UserWarning, match="the network divides or repeats images, and such layers treat all of them as"):
        adapted(IMAGES[0])
    adapted(IMAGES[1])  # once


def test_buffers_that_a_network_writes_are_reset_and_not_changed_by_refused_images() -> None:
    adapted = midway.BN(Counting(), prior=16)
    first = [adapted(images) for images in IMAGES]
    adapted.reset()
    assert all(map(torch.equal, first, map(adapted, IMAGES)))
    before = adapted.snapshot()
    with pytest.raises(ValueError, match="does not accept images"):
        adapted(torch.rand(4, 1, 16, 16))
    assert torch.equal(before["tensors"]["model.mean"], adapted.snapshot()["tensors"]["model.mean"])


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("name", ["bn", "tent", "mita"])
def test_flags_that_a_module_around_sets_change_nothing(name: str, flag: bool) -> None:
    adapted, alone = (midway.adapt(tiny_network(), name) for _ in range(2))
    first = adapted(IMAGES[0])
    alone(IMAGES[0])
    nn.Sequential(adapted).requires_grad_(flag)
    assert torch.equal(adapted(IMAGES[1]), alone(IMAGES[1]))
    adapted.reset()
    assert torch.equal(adapted(IMAGES[0]), first)


def test_a_state_that_a_module_around_loads_is_checked() -> None:
    tent, other, eata = (nn.Sequential(midway.adapt(tiny_network(), name)) for name in ("tent", "tent", "eata"))
    tent(IMAGES[0])
    before = eata[0].snapshot()
    with pytest.raises(ValueError, match="the state is of tent, this is eata"):
        eata.load_state_dict(tent.state_dict())
    assert all(torch.equal(value, before["tensors"][name]) for name, value in eata[0].snapshot()["tensors"].items())
    other.load_state_dict(tent.state_dict())
    assert torch.equal(other(IMAGES[1]), tent(IMAGES[1]))


def test_a_state_of_other_weights_is_refused() -> None:
    retrained = tiny_network()
    with torch.no_grad():
        retrained[-1].weight.mul_(2)  # frozen
    rescaled = tiny_network()
    with torch.no_grad():
        rescaled[1].weight.mul_(2)  # adapted
    state = midway.Tent(tiny_network()).state_dict()
    midway.Tent(tiny_network()).load_state_dict(state)
    for network in (retrained, rescaled):
        with pytest.raises(ValueError, match=r"of a network with other weights: model\.\d+\.weight differs"):
            midway.Tent(network).load_state_dict(state)


def test_numbers_of_numpy_and_subclasses_of_tensors_leave_no_trace_in_a_state() -> None:
    adapted = midway.Tent(tiny_network(), lr=np.float64(0.01), betas=(np.float32(0.5), 0.9))
    adapted(IMAGES[0])
    assert type(adapted.hyperparameters["lr"]) is float
    assert saved(adapted)["_extra_state"]["hyperparameters"]["lr"] == "0.01"
    midway.NOTE(tiny_network(), seed=np.int64(1))(IMAGES[0])
    rotta = midway.RoTTA(tiny_network(), memory=4, interval=4)
    assert type(rotta(IMAGES[0].as_subclass(OtherTensor))) is Tensor
    saved(rotta)


def test_a_temperature_of_another_type_does_not_decide_that_of_the_images() -> None:
    assert midway.Tent(Calibrated())(IMAGES[0]).dtype == torch.float32


def test_a_failure_of_the_moment_is_not_taken_for_a_property_of_the_network() -> None:
    network = tiny_network()
    adapted = midway.Tent(network)

    def out_of_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("no memory")

    hook = adapted.model.register_forward_pre_hook(out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        adapted(IMAGES[0])
    hook.remove()
    assert torch.equal(adapted(IMAGES[0]), midway.Tent(network)(IMAGES[0]))
