"""What clustered statistics remember: batches, further passes over them, copies, and the shares of images."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from clustered_layers import ALTERNATING, by_definition, images_of, layer_and_model
from midway.adaptation.batch_norm.cluster_state import shares_of_images, trackers_of
from midway.adaptation.batch_norm.clustered import ClusteredBatchNorm
from midway.testing import tiny_network


def test_a_rare_kind_is_normalised_with_its_images_of_earlier_batches() -> None:
    layer, model = layer_and_model()
    earlier: dict[int, list[Tensor]] = {}
    for number, kinds in enumerate([ALTERNATING, ALTERNATING[:9], [0] * 80 + [1] * 2, [1]]):
        model(images_of(kinds, seed=number))
        expected = by_definition(model.entered, kinds, layer, 3.0, earlier)
        torch.testing.assert_close(model.left, expected, rtol=1e-3, atol=2e-3)
        for value, kind in zip(model.entered.detach(), kinds, strict=True):
            earlier.setdefault(kind, []).append(value)
        if number == 2:  # the memory averages over 64 images: the next batch would weigh the oldest less
            break


def test_without_memory_a_batch_does_not_depend_on_earlier_ones() -> None:
    _, model = layer_and_model(memory=False)
    few = images_of([1, 0, 0], seed=5)
    before = model(few)
    model(images_of(ALTERNATING))
    torch.testing.assert_close(model(few), before, rtol=0, atol=0)
    _, remembers = layer_and_model()
    before = remembers(few)
    remembers(images_of(ALTERNATING))
    assert (remembers(few) - before).abs().max() > 0.01


def test_further_passes_over_a_batch_and_samples_of_the_model_do_not_change_the_memory() -> None:
    layer, model = layer_and_model()
    (tracker,) = trackers_of(model)
    tracker.managed = True
    images, samples = images_of(ALTERNATING), images_of([0, 1] * 45, seed=7)
    with tracker.during(images):
        first = model(images)
        memory = [buffer.clone() for buffer in model.buffers()]
        torch.testing.assert_close(model(images), first, rtol=0, atol=0)
        model(samples)  # their own kinds
        torch.testing.assert_close(
            model.left, by_definition(model.entered, [0, 1] * 45, layer, 3.0), rtol=1e-3, atol=1e-3
        )
        assert tracker.current is not tracker.batch
        for same in (images.flip(-1), (images + 0.02).clamp(0, 1)):  # mirrored, moved
            model(same)
            assert tracker.current is tracker.batch
    assert all(torch.equal(a, b) for a, b in zip(memory, model.buffers(), strict=True))
    assert tracker.labels() == ALTERNATING


def test_the_layer_keeps_its_place_and_a_copy_has_a_tracker_of_its_own() -> None:
    model = tiny_network().eval()
    before = dict(model.named_parameters())
    made = midway.clustered(model)
    layers = [module for module in made.modules() if isinstance(module, ClusteredBatchNorm)]
    assert layers
    assert dict(made.named_parameters()).keys() == before.keys()
    assert not any(isinstance(module, ClusteredBatchNorm) for module in model.modules())  # the given one is unchanged
    assert {id(layer.tracker) for layer in layers} == {id(tracker) for tracker in trackers_of(made)}
    other = [module for module in copy.deepcopy(made).modules() if isinstance(module, ClusteredBatchNorm)]
    assert {id(layer.tracker) for layer in other} == {id(other[0].tracker)} != {id(layers[0].tracker)}


def test_methods_say_which_image_is_of_which_kind() -> None:
    adapted = midway.adapt(tiny_network(), "tent", statistics="clustered")
    adapted(images_of(ALTERNATING))
    assert adapted.diagnostics["kinds"] == ALTERNATING
    assert adapted.diagnostics["num_kinds"] == 2
    assert adapted.diagnostics["outliers"] == 0
    adapted(images_of([0] * 50 + [1] + [0] * 49, seed=1))
    assert adapted.diagnostics["kinds"] == [0] * 50 + [1] + [0] * 49
    adapted.reset()
    lone = images_of([0] * 50 + [1] + [0] * 49, seed=1)
    adapted(lone)
    assert adapted.diagnostics["outliers"] == 1


def test_between_batches_the_network_answers_with_what_it_remembers_and_remembers_no_more() -> None:
    adapted = midway.adapt(tiny_network(), "bn", statistics="clustered")
    adapted(images_of(ALTERNATING))
    state = adapted.snapshot()["tensors"]
    following = images_of([1, 0, 1], seed=2)
    with torch.no_grad():
        by_itself, alone = adapted.model(following), midway.clustered(tiny_network())(following)
    torch.testing.assert_close(adapted.snapshot()["tensors"], state, rtol=0, atol=0)
    assert torch.equal(by_itself, adapted(following))
    assert not torch.allclose(by_itself, alone)


def test_the_models_of_mita_share_their_kinds_and_have_memories_of_their_own() -> None:
    adapted = midway.adapt(tiny_network(), "mita", statistics="clustered")
    assert len(trackers_of(adapted)) == 1
    adapted(images_of(ALTERNATING))
    assert int(trackers_of(adapted)[0].filled) == 90
    memories = [dict(model.named_buffers()) for model in (adapted.model, adapted.data_model)]
    name = next(name for name in memories[0] if name.endswith("cluster_mean"))
    assert memories[0][name] is not memories[1][name]
    assert all(memory[name].any() for memory in memories)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301
def test_a_copy_carries_the_memory_and_not_the_last_batch(copied: Callable[[nn.Module], nn.Module]) -> None:
    model, images = midway.clustered(tiny_network()).eval(), images_of(ALTERNATING)
    model(images.flip(0))
    torch.testing.assert_close(copied(model)(images[:9]), model(images[:9]), rtol=0, atol=0)


def test_the_shares_of_images_are_those_of_their_kinds() -> None:
    torch.manual_seed(0)
    smooth = torch.rand(100, 3, 8, 8).repeat_interleave(4, 2).repeat_interleave(4, 3)
    images = torch.cat([torch.rand(100, 3, 32, 32), smooth])
    adapted = midway.BN(midway.clustered(midway.models.create("resnet20")))
    assert shares_of_images(adapted) is None
    adapted(images)
    shares, kinds = shares_of_images(adapted), torch.tensor(adapted.diagnostics["kinds"])
    assert shares is not None
    assert (kinds[:100] != kinds[100:]).all()
    torch.testing.assert_close(shares, torch.block_diag(torch.full((100, 100), 0.01), torch.full((100, 100), 0.01)))
    assert shares_of_images(midway.BN(midway.models.create("resnet20"))) is None
