"""Small functions of the machinery that no other test calls directly."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import midway
from midway.adaptation import copies
from midway.adaptation.adapt import with_preset
from midway.adaptation.batch_norm.image_statistics import Moments, statistics_by_image
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_hyperparameters, check_images
from midway.adaptation.describe import tuned_of
from midway.adaptation.head import head_of
from midway.adaptation.image_weights import weights_by_image
from midway.adaptation.optimization import LazyOptimizer, optimizer_step, sam_step
from midway.adaptation.parameters import first_weight, freeze_all_but, last_stage, norm_affine, norm_layers
from midway.adaptation.precision import use_bf16, without_autocast_cache
from midway.adaptation.problem import Problem
from midway.adaptation.selection import record_shares, redundancy_margin, reliable
from midway.adaptation.space import Choice, Integers, LogUniform, Uniform, search_over
from midway.adaptation.state import capture, restored
from midway.adaptation.views import augmix_views, crops, draw
from midway.cost import count_passes
from midway.methods.dua import update_running_statistics
from midway.methods.lame import affinities, smooth
from midway.methods.memo import marginal_entropy
from midway.methods.t3a import lowest_by_class


def test_copies() -> None:
    assert copies.supports_channels_last(nn.Conv2d(3, 4, 1))
    assert not copies.supports_channels_last(nn.GroupNorm(1, 4))
    assert isinstance(copies.without_parallel(nn.DataParallel(nn.Flatten())), nn.Flatten)
    assert not copies.in_evaluation_mode(nn.Sequential(nn.Dropout()))[0].training  # type: ignore[index]
    layer = nn.Linear(1, 1)
    assert copies.independent_copy(layer, torch.contiguous_format).weight is not layer.weight
    layer.doubled = 2 * layer.weight
    assert list(copies.graph_tensors(layer)) == [id(layer.doubled)]


def test_checks_and_parameters() -> None:
    with pytest.raises(TypeError, match=r"lr must be a number, got '1e-3'\."):
        check_hyperparameters(midway.Tent, {"lr": "1e-3"})
    with pytest.raises(ValueError, match=r"images must have shape \(N, C, H, W\), got \(3, 32, 32\)"):
        check_images(torch.rand(3, 32, 32), nn.Flatten())
    assert [name for name, _ in norm_layers(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)))] == ["1"]
    assert first_weight(nn.Flatten(), torch.empty(0)).dtype == torch.float32


def test_precision() -> None:
    cpu = torch.device("cpu")
    assert (use_bf16("bf16", cpu), use_bf16("float32", cpu)) == (True, False)
    layer, one = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
    with torch.autocast("cpu", torch.bfloat16), without_autocast_cache():
        layer(one)
        layer.weight.data.fill_(2.0)
        assert layer(one).item() == 2.0


def test_problems_presets_spaces_and_state() -> None:
    network = nn.Sequential(nn.Flatten(), nn.LayerNorm(4))
    assert Problem.of(network, torch.rand(50, 3, 224, 240), torch.zeros(50, 9)) == Problem(9, 224, 50, False, True)
    assert Problem.of(nn.BatchNorm2d(3), torch.rand(50, 3, 9)) == Problem(0, 0, 50, True, False)
    assert with_preset("tent", {"preset": "tuned", "lr": 1e-4})["lr"] == 1e-4
    assert tuned_of("memo") == {}
    assert tuned_of("bn") == {"prior": "4"}
    assert str(LogUniform(1e-4, 1e-2)) == "0.0001 to 0.01, logarithmic"
    assert str(Uniform(0.5, 0.99)) == "0.5 to 0.99"
    assert str(Integers(1, 20, log=True)) == "1 to 20, integer, logarithmic"
    assert (4 in Integers(1, 4), 2.5 in Integers(1, 4)) == (True, False)
    counts = torch.ones(2)
    before = capture({"counts": counts, "seen": 3})
    counts.zero_()
    assert before["counts"].tolist() == [1, 1]


def test_passes_are_counted() -> None:
    method = midway.BN(midway.models.create("resnet20"))
    with count_passes(method) as passes:
        method(torch.rand(4, 3, 32, 32))
    assert (passes.forward - 2, passes.backward) == (4, 0)  # two images check a new shape


def test_optimizer_steps() -> None:
    x = nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([x], lr=0.5)
    assert optimizer_step((term for term in [x * x, -x]), optimizer)
    assert x.item() == 0.5
    assert not optimizer_step(x * float("nan"), optimizer)
    assert x.item() == 0.5
    lazy = LazyOptimizer([x])
    assert lazy.state_dict() == {}
    assert isinstance(lazy.get("sgd", lr=0.1), torch.optim.SGD)
    y = nn.Parameter(torch.tensor(1.0))
    assert sam_step(y * y, lambda: y * y, torch.optim.SGD([y], lr=0.1), rho=0.5)
    assert y.item() == pytest.approx(0.7)  # the gradient at 1.5 is 3


def test_parameters_of_norm_layers() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    assert sorted(norm_affine(model)) == ["1.bias", "1.weight"]
    assert len(freeze_all_but(model, norm_affine(model))) == 2
    assert not model[0].weight.requires_grad


def test_the_last_stage_of_a_transformer() -> None:
    def block() -> nn.Module:
        return nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4))

    vit = nn.ModuleDict({"blocks": nn.Sequential(*[block() for _ in range(12)]), "norm": nn.LayerNorm(4)})
    assert last_stage(vit) == ("blocks.9", "blocks.10", "blocks.11", "norm")
    assert last_stage(nn.Sequential(block(), block(), block())) == ()


def test_statistics_of_layers() -> None:
    layer = nn.BatchNorm1d(1).eval()
    assert use_batch_statistics(layer) == 1
    assert layer(torch.tensor([[3.0], [5.0]])).round().flatten().tolist() == [-1, 1]
    network = nn.Sequential(nn.BatchNorm1d(1)).eval()
    with torch.no_grad(), statistics_by_image(network, 2, source_share=0) as seen:
        output = network(torch.tensor([[1.0], [3.0], [10.0], [30.0]]))
    assert output.round().flatten().tolist() == [-1, 1, -1, 1]
    assert seen["0"][0].mean.flatten().tolist() == [2, 20]


def test_weights_of_each_image() -> None:
    network = nn.Sequential(nn.Linear(1, 1, bias=False))
    with weights_by_image(network, {"0.weight": torch.tensor([[[2.0]], [[3.0]]])}, 4, source_share=0):
        assert network(torch.ones(4, 1)).flatten().tolist() == [2, 2, 3, 3]


def test_selection() -> None:
    assert reliable(torch.tensor([[9.0, 0.0, 0.0], [0.1, 0.0, 0.0]]), margin=0.4).tolist() == [True, False]
    margins = [round(redundancy_margin(classes), 3) for classes in (4, 10, 100, 200, 1000)]
    assert margins == [0.632, 0.4, 0.1, 0.081, 0.05]
    method = midway.Source(nn.Flatten())
    record_shares(method, selected=torch.tensor([True, False, False, False]))
    record_shares(method, selected=torch.tensor([True, True, False, False]))
    assert method.diagnostics == {"judged": 8, "selected": 3, "selected_share": 0.375}


def test_choices_and_restored_generators() -> None:
    assert "knn" in Choice("knn", "rbf")
    assert str(Choice(1, 5, None)) == "1, 5 or None"
    assert search_over(lr=LogUniform(1e-4, 1e-2))["lr"] == LogUniform(low=0.0001, high=0.01)
    generators = {"noise": torch.Generator().manual_seed(0)}
    before = capture(generators)
    first = torch.rand(1, generator=generators["noise"])
    assert torch.equal(first, torch.rand(1, generator=restored(generators, before)["noise"]))


def test_functions_of_the_papers() -> None:
    layer = nn.BatchNorm1d(1)
    update_running_statistics(layer, [Moments(torch.tensor([[4.0], [8.0]]), torch.ones(2, 1), 100)], [0.5, 0.5])
    assert layer.running_mean == 5  # 0 -> 2 -> 5
    near = affinities(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), "knn", 1)
    assert near.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    log_z, iterations = smooth(torch.tensor([[0.6, 0.4], [0.5, 0.5]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert (log_z.argmax(dim=1).tolist(), iterations) == ([0, 0], 25)
    assert marginal_entropy(torch.tensor([[200.0, 0.0], [0.0, 200.0]])).exp() == 2
    assert lowest_by_class(torch.tensor([0.3, 0.1, 0.2, 0.9]), torch.tensor([0, 0, 0, 1]), 2).tolist() == [1, 2, 3]
    assert midway.Tent(midway.models.create("resnet20")).num_trainable() == 1568
    assert head_of(midway.models.create("resnet20"))[0] == "fc"


def test_views_do_not_depend_on_the_batch() -> None:
    both, generator = draw(2, 8, torch.Generator().manual_seed(0)), torch.Generator().manual_seed(0)
    assert torch.equal(torch.cat([draw(1, 8, generator), draw(1, 8, generator)]), both)
    images = torch.rand(2, 3, 8, 8)
    assert crops(images, both).shape == (2, 8, 3, 8, 8)
    views = augmix_views(images, both)
    assert views.shape == (2, 8, 3, 8, 8)
    assert 0 <= views.min() <= views.max() <= 1
