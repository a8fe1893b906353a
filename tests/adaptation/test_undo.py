"""A batch that fails leaves everything as before: replay buffers, of which little is copied, and the speed of MEMO."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.capture import begin_undo, capture, end_undo, restore
from midway.adaptation.nonfinite import NonFiniteError
from midway.methods import AdaptiveClassifier
from midway.sampling import ReplayBuffer
from midway.sampling.changes import Changes
from midway.testing import batches, tiny_network

WITH_CHAINS: dict[str, dict[str, Any]] = {
    "tea": {"langevin_steps": 1, "buffer_size": 20},
    "tea, steps": {"langevin_steps": 1, "buffer_size": 20, "steps": 3},
    "mita": {"preset": "published", "buffer_size": 20},
    "mita, shared pass": {"preset": "published", "buffer_size": 20, "shared_pass": True},
    "mita, fresh": {"preset": "published", "buffer_size": 20, "data_model": "fresh", "data_model_steps": 2},
    "mita, printed": {"preset": "printed"},
}


class Failing(nn.Module):
    """A network that fails in its n-th pass from now, with an error, an interrupt or NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.passes, self.how = tiny_network(), -1, ""

    def forward(self, images: Tensor) -> Tensor:
        self.passes -= 1
        if self.passes == 0 and self.how == "error":
            raise RuntimeError("the pass fails")
        if self.passes == 0 and self.how == "interrupt":
            raise KeyboardInterrupt
        logits: Tensor = self.network(images)
        return logits * torch.nan if 0 >= self.passes > -100 and self.how == "nan" else logits


def flat(state: Any) -> list[Tensor]:
    if isinstance(state, dict | list | tuple):
        items = state.values() if isinstance(state, dict) else state
        return [tensor for item in items for tensor in flat(item)]
    return [state] if isinstance(state, Tensor) else [torch.tensor(state)] if isinstance(state, int | float) else []


def assert_same(first: Any, second: Any) -> None:
    for one, other in zip(flat(first), flat(second), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def buffers_of(method: AdaptiveClassifier) -> list[ReplayBuffer]:
    inner = getattr(method, "method", method)
    found = [getattr(value, "buffer", None) for value in vars(inner).values()]
    return [buffer for buffer in found if isinstance(buffer, ReplayBuffer)]


@pytest.mark.parametrize("wrap", [None, "guarded"])
@pytest.mark.parametrize("how", ["error", "interrupt", "nan"])
@pytest.mark.parametrize("name", WITH_CHAINS)
def test_a_batch_that_fails_leaves_the_buffer_as_before(name: str, how: str, wrap: str | None) -> None:
    settings = WITH_CHAINS[name] | ({} if wrap is None else {"wrap": wrap})
    method, undisturbed = (midway.adapt(Failing(), name.partition(",")[0], **settings) for _ in range(2))
    stream = batches(4)
    for images in stream[:2]:  # buffers that are not full: rows are added, and storage grows
        assert_same(method(images), undisturbed(images))
    networks = [module for module in method.modules() if isinstance(module, Failing)]
    failed = 0
    for images in stream[2:]:
        for fail_at in range(1, 9):
            before = method.snapshot()
            for network in networks:
                network.passes, network.how = fail_at, how
            try:
                method(images)
            except (RuntimeError, KeyboardInterrupt, NonFiniteError):
                failed += 1
            else:  # fewer passes than that, or nothing notices: NaN of a sample, which is skipped
                method.restore(before)
            for network in networks:
                network.passes = -1000
            assert_same(before, method.snapshot())
        assert_same(method(images), undisturbed(images))
    assert failed
    assert_same(method.snapshot(), undisturbed.snapshot())
    assert all(buffer._recording == [] for buffer in buffers_of(method))


def filled(count: int = 20) -> tuple[ReplayBuffer, Tensor]:
    buffer, images = ReplayBuffer(capacity=20), torch.rand(20, 3, 4, 4)
    buffer.put(torch.arange(count), images[:count])
    return buffer, images


@pytest.mark.parametrize("count", [0, 5, 20])
def test_every_change_of_a_buffer_is_undone(count: int) -> None:
    buffer, images = filled(count) if count else (ReplayBuffer(capacity=20), torch.rand(20, 3, 4, 4))
    before = buffer.state_dict()
    changes = buffer.begin_undo()
    assert isinstance(changes, Changes)
    for _ in range(2):  # it can be undone again
        buffer.put(torch.tensor([1, 2, 2]), images[:3] + 1)
        buffer.put(torch.tensor([2, 19]), images[:2] + 2)
        changes.undo()
        assert_same(before, buffer.state_dict())
        buffer.load_state_dict(filled()[0].state_dict())
        buffer.put(torch.tensor([3]), images[:1] + 3)
        changes.undo()
        assert_same(before, buffer.state_dict())
        buffer.draw(images.double(), torch.Generator().manual_seed(0))  # converts the images
        buffer.put(torch.tensor([4]), images[:1].double())
        changes.undo()
        assert_same(before, buffer.state_dict())
    changes.end()
    buffer.put(torch.tensor([5]), images[:1] + 4)
    assert changes.overwritten == []


def test_only_what_is_overwritten_is_copied() -> None:
    buffer, images = filled()
    changes = buffer.begin_undo()
    assert changes.images is buffer._images
    buffer.put(torch.tensor([7, 7, 3]), images[:3])
    assert [rows.tolist() for rows, _ in changes.overwritten] == [[3, 7]]


def test_a_captured_tensor_does_not_change() -> None:
    counts = torch.ones(2)
    before = capture({"counts": counts, "seen": 3})
    counts.zero_()
    assert before["counts"].tolist() == [1, 1]


def test_generators_are_restored() -> None:
    generators = {"noise": torch.Generator().manual_seed(0)}
    before = capture(generators)
    first = torch.rand(1, generator=generators["noise"])
    assert torch.equal(first, torch.rand(1, generator=restore(generators, before)["noise"]))


def test_records_may_be_nested() -> None:
    buffer, images = filled()
    outside = {"chains": [buffer], "number": 3}
    first = begin_undo(outside)
    start = buffer.state_dict()
    buffer.put(torch.tensor([0]), images[:1] + 1)
    middle, second = buffer.state_dict(), begin_undo(outside)
    buffer.put(torch.tensor([0, 1]), images[:2] + 2)
    restore(outside, second)
    end_undo(second)
    assert_same(middle, buffer.state_dict())
    assert restore(outside, first)["number"] == 3
    end_undo(first)
    assert_same(start, buffer.state_dict())
    assert buffer._recording == []


@pytest.mark.parametrize("error", [RuntimeError("the driver hangs"), torch.OutOfMemoryError("too large")])
def test_a_batch_that_fails_does_not_slow_down_the_next_ones(error: Exception) -> None:
    class Limited(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.largest = tiny_network(), 1000

        def forward(self, images: Tensor) -> Tensor:
            if len(images) > self.largest:
                raise error
            logits: Tensor = self.network(images)
            return logits

    first, second = batches(2, size=3)
    method, undisturbed = (midway.MEMO(Limited(), views=4, lr=0.1) for _ in range(2))
    assert method(first).equal(undisturbed(first))
    assert isinstance(method.model, Limited)
    method.model.largest = 0  # nothing works
    with pytest.raises(RuntimeError):
        method(second)
    assert method.supports_many_images
    method.model.largest = 1000
    assert method(second).equal(undisturbed(second))
    method.model.largest = 4  # the views of one image fit into memory, those of three do not
    method(second)
    assert method.supports_many_images == isinstance(error, torch.OutOfMemoryError)
