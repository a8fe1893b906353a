"""Networks that return more than logits, have a single logit, or take images of several sizes or signals."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.models import TwoLogits, logits_of

BATCHES = [torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
ON_IMAGES = ("dua", "tea", "memo", "mita", "cmf", "cotta", "dda", "deyo", "note", "roid", "rotta", "santa")
WITH_BUFFER = ("tea", "mita")


class ModelOutput(OrderedDict[str, Any]):
    """Stands for the outputs of Hugging Face's models: a dictionary with attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class InceptionOutputs(NamedTuple):
    """Stands for torchvision's output of the same name."""

    logits: Tensor
    aux_logits: Tensor


FORMS = {
    "attribute": lambda logits: ModelOutput(hidden_states=logits.new_zeros(1), logits=logits),
    "named tuple": lambda logits: InceptionOutputs(logits, logits + 1),
    "dict": lambda logits: {"features": logits + 1, "logits": logits},
    "dict of one": lambda logits: {"prediction": logits},
    "tuple": lambda logits: (logits, logits + 1),
}


class Network(nn.Module):
    def __init__(self, form: Any = None, *, classes: int = 4) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.body = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
            )
            self.head = nn.Linear(8, classes)
        self.form = form

    def forward(self, images: Tensor) -> Any:
        logits = self.head(self.body(images))
        return logits if self.form is None else FORMS[self.form](logits)

    def rotation_logits(self, images: Tensor) -> Any:
        logits = self.body(images)[:, :4]
        return logits if self.form is None else FORMS[self.form](logits)


@pytest.mark.parametrize("name", midway.methods.names())
@pytest.mark.parametrize("form", FORMS)
def test_every_method_finds_the_logits(name: str, form: str) -> None:
    plain, wrapped = midway.adapt(Network(), name), midway.adapt(Network(form), name)
    for images in BATCHES:
        torch.testing.assert_close(wrapped(images), plain(images), rtol=0, atol=0)
    costs = [midway.cost.measure_cost(method, BATCHES[0], repeats=0) for method in (plain, wrapped)]
    assert costs[0].backward_passes == costs[1].backward_passes
    assert costs[0].flops_total == costs[1].flops_total


def test_the_given_network_still_returns_its_own_output() -> None:
    network = Network("dict")
    midway.Tent(network)(BATCHES[0])
    assert set(network(BATCHES[0])) == {"features", "logits"}


def test_evaluate_and_sampling_find_the_logits() -> None:
    stream = [(images, torch.zeros(8, dtype=torch.int64)) for images in BATCHES]
    assert midway.evaluate(Network("tuple"), stream).accuracy == midway.evaluate(Network(), stream).accuracy
    samples = [
        midway.sample_images(network.eval(), 2, shape=(3, 8, 8), steps=2) for network in (Network(), Network("dict"))
    ]
    assert torch.equal(*samples)


def test_a_copied_method_keeps_finding_the_logits() -> None:
    import copy

    method = copy.deepcopy(midway.Tent(Network("dict")))
    assert method(BATCHES[0]).shape == (8, 4)


def test_a_dictionary_without_logits_is_refused_with_its_keys() -> None:
    with pytest.raises(ValueError, match=r"got a dict without 'logits' \(loss, features\) for 8 images"):
        midway.Source(_Fixed({"loss": torch.zeros(()), "features": torch.zeros(2, 4)}))(BATCHES[0])


class _Fixed(nn.Module):
    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output

    def forward(self, images: Tensor) -> Any:
        return self.output


def test_messages_count_the_images_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"got \(8, 3, 16, 16\) for 8 images"):
        midway.Source(nn.Identity())(BATCHES[0])


@pytest.mark.parametrize("flat", [False, True])
def test_a_single_logit_is_refused_with_a_remedy_that_works(flat: bool) -> None:
    network: nn.Module = Network(classes=1)
    network = nn.Sequential(network, nn.Flatten(0)) if flat else network
    with pytest.raises(ValueError, match=r"single logit.*torch.nn.Sequential\(model, midway.models.TwoLogits\(\)\)"):
        midway.Tent(network)(BATCHES[0])
    logits = midway.Source(nn.Sequential(network, TwoLogits()))(BATCHES[0])
    network.eval()
    torch.testing.assert_close(logits.softmax(dim=1)[:, 1], network(BATCHES[0]).flatten().sigmoid())


def test_two_logits_refuses_several() -> None:
    with pytest.raises(ValueError, match=r"expects one logit per image, \(N, 1\) or \(N,\), got \(2, 3\)"):
        TwoLogits()(torch.zeros(2, 3))
    assert TwoLogits()({"logits": torch.zeros(2, 1)}).shape == (2, 2)


def test_an_output_of_another_form_is_returned_as_it_is() -> None:
    assert logits_of("text") == "text"
    assert logits_of(()) == ()


@pytest.mark.parametrize("name", [name for name in midway.methods.names() if name != "tea"])
def test_sizes_may_change_between_batches(name: str) -> None:
    method = midway.adapt(Network(), name)
    for shape in ((8, 3, 16, 16), (6, 3, 20, 18), (8, 3, 16, 16)):
        assert method(torch.rand(shape)).shape == (len(torch.empty(shape)), 4)


@pytest.mark.parametrize("name", WITH_BUFFER)
def test_a_replay_buffer_needs_one_size(name: str) -> None:
    method = midway.adapt(Network(), name, buffer_size=100)  # MITA has none by default
    method(BATCHES[0])
    with pytest.raises(ValueError, match="reset the method before it receives images of another size"):
        method(torch.rand(8, 3, 20, 18))


def signal_network() -> nn.Module:
    layers = [nn.Conv1d(2, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("name", [name for name in midway.methods.names() if name not in (*ON_IMAGES, "ttt")])
@pytest.mark.parametrize("wrap", [None, "episodic", "guarded"])
def test_signals_of_any_range_and_length(name: str, wrap: str | None) -> None:
    method = midway.adapt(signal_network(), name, wrap=wrap)
    for length in (200, 150):
        assert method(3 * torch.randn(6, 2, length)).shape == (6, 3)
    with pytest.raises(ValueError, match="1 of 6 images contain NaN"):
        method(torch.randn(6, 2, 200).index_fill(0, torch.tensor([2]), torch.nan))


@pytest.mark.parametrize("name", ON_IMAGES)
def test_methods_with_image_operations_refuse_signals(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = midway.adapt(signal_network(), name)
    with pytest.raises(ValueError, match=r"signals \(N, C, L\) need a method without image operations"):
        method(torch.randn(6, 2, 200))


def test_a_single_image_is_not_a_batch_of_signals() -> None:
    with pytest.raises(ValueError, match=r"images must have shape \(N, C, H, W\), got \(3, 16, 16\)"):
        midway.Source(Network())(BATCHES[0][0])


def test_hugging_face_classifiers() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    network = transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes, num_labels=5))
    for name in ("tent", "t3a"):
        assert midway.adapt(network, name)(torch.rand(4, 3, 32, 32)).shape == (4, 5)
