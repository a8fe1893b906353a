from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import midway
from midway.testing import batches, tiny_network


def test_errors_say_what_to_do() -> None:
    method = midway.Tent(tiny_network())
    images = batches(1)[0]
    with pytest.raises(TypeError, match="divide by 255"):
        method((images * 255).byte())
    with pytest.raises(ValueError, match=r"\(N, C, H, W\), got \(3, 16, 16\)"):
        method(images[0])
    with pytest.raises(ValueError, match="batch is empty"):
        method(images[:0])
    with pytest.raises(
        ValueError, match=r"does not accept images of shape \(12, 1, 16, 16\) \(for grey images use .*channels"
    ):
        method(images[:, :1])
    with pytest.raises(ValueError, match=r"\(12, 16, 16, 3\) \(\(N, C, H, W\) is right: use images.movedim\(-1, 1\)"):
        method(images.movedim(1, -1))
    with pytest.raises(
        ValueError, match=r"does not accept images of shape \(1, 1, 16, 16\) \(for grey images use .*channels"
    ):
        midway.Source(tiny_network("group"))(images[:1, :1])
    with pytest.raises(TypeError, match=r"images are torch.float64, the model is torch.float32"):
        method(images.double())
    with pytest.raises(ValueError, match="unnormalised"):
        method((images - 0.5) / 0.2)
    images[7, 0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="1 of 12 images contain NaN or Inf, the first has index 7"):
        method(images)
    with pytest.raises(TypeError, match=r"torch\.as_tensor"):
        method(images.numpy())


def test_shapes_are_tried_out_before_anything_moves() -> None:
    """A network of a fixed size, and one that needs several images, are refused with the state as before."""
    fixed = nn.Sequential(tiny_network()[:6], nn.Flatten(), nn.Linear(8 * 8 * 8, 4))  # type: ignore[index]
    vectors = nn.Sequential(tiny_network()[:8], nn.BatchNorm1d(8), nn.Linear(8, 4)).eval()  # type: ignore[index]
    for network, bad in ((fixed, batches(1, side=20)[0]), (vectors, batches(1, size=1)[0])):
        method, twin = midway.MITA(network), midway.MITA(network)
        good = batches(1)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match="does not accept images of shape"):
                method(bad)
        assert torch.equal(method(good), twin(good))
    with pytest.raises(ValueError, match=r"logits \(N, classes\), got \(12, 3, 16, 16\)"):
        midway.Source(nn.Identity())(batches(1)[0])


def test_single_images_warn_once_where_batch_statistics_are_used() -> None:
    image = batches(1, size=1)[0]
    method = midway.Tent(tiny_network())
    with pytest.warns(UserWarning, match="single image"):
        method(image)
    method(image)  # once is enough
    midway.Source(tiny_network())(image)
    midway.Tent(tiny_network("group"))(image)


def test_unknown_names_list_the_valid_ones_and_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'tent'\? Valid names: .*bn.*source.*tent"):
        midway.adapt(tiny_network(), "tnet")
    with pytest.raises(
        TypeError,
        match=r"did you mean 'steps'\? Valid names: betas, loss, lr, on_nonfinite, optimizer, predict, preset, ",
    ):
        midway.adapt(tiny_network(), "tent", step=2)


def test_a_method_is_not_a_model() -> None:
    with pytest.raises(TypeError, match="already adapted by Source"):
        midway.Tent(midway.Source(tiny_network()))
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, got function"):
        midway.Source(lambda images: images)  # type: ignore[arg-type]


def test_arguments_the_wrong_way_round_are_explained() -> None:
    with pytest.raises(TypeError, match="given by its name"):
        midway.adapt(tiny_network(), midway.Tent)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="given by its name"):
        midway.adapt("tent", tiny_network())  # type: ignore[arg-type]


def test_registering_a_taken_name_is_refused() -> None:
    class Impostor(midway.Source):
        pass

    with pytest.raises(ValueError, match="'source' is already used"):
        midway.methods.register(Impostor)


def test_state_of_another_method_or_network_is_refused_untouched() -> None:
    method = midway.Tent(tiny_network(), lr=0.001)
    method(batches(1)[0])
    before = {key: value.clone() for key, value in method.state_dict().items() if isinstance(value, torch.Tensor)}
    with pytest.raises(ValueError, match="the state is empty"):
        midway.Tent(tiny_network()).load_state_dict({})
    with pytest.raises(ValueError, match="plain network weights"):
        method.load_state_dict(tiny_network().state_dict())
    with pytest.raises(ValueError, match=r"the state is of lr=0\.1, this method has lr=0\.001"):
        method.load_state_dict(midway.Tent(tiny_network(), lr=0.1).state_dict())
    with pytest.raises(ValueError, match="assign=True"):
        method.load_state_dict(midway.Tent(tiny_network(), lr=0.001).state_dict(), assign=True)
    with pytest.raises(ValueError, match="the state is of source, this is tent"):
        method.load_state_dict(midway.Source(tiny_network()).state_dict())
    with pytest.raises(ValueError, match="keys differ"):
        method.load_state_dict(midway.Tent(tiny_network("layer"), lr=0.001).state_dict())
    with pytest.raises(ValueError, match="shapes differ"):
        method.load_state_dict(midway.Tent(tiny_network(classes=7), lr=0.001).state_dict())
    after = method.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    """A network whose gradient explodes on bright images keeps its weights there and goes on afterwards."""

    class Fragile(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tiny_network()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.inner(images)
            return logits + Explode.apply(logits) if images.mean() > 0.9 else logits

    class Explode(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(logits)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return gradients[0] * float("nan")

    method = midway.Tent(Fragile())
    weights = [p.clone() for p in method.model.parameters()]
    method(torch.ones(4, 3, 16, 16))
    assert method.diagnostics == {"skipped_steps": 1}
    assert all(torch.equal(a, b) for a, b in zip(weights, method.model.parameters(), strict=True))
    method(batches(1)[0])
    assert not all(torch.equal(a, b) for a, b in zip(weights, method.model.parameters(), strict=True))
    method.reset()
    assert method.diagnostics == {}


def test_moving_to_another_dtype_takes_the_optimizer_along() -> None:
    method = midway.Tent(tiny_network())
    images = batches(2)
    method(images[0])
    method.double()
    assert method(images[1].double()).dtype == torch.float64
    assert all(state["exp_avg"].dtype == torch.float64 for state in method.optimizer.get("adam", 1e-3).state.values())


def test_networks_with_constants_outside_their_state_dict_save_and_load() -> None:
    network = midway.models.CifarResNet(depth=8)  # its normalisation is a buffer that is not persistent
    method, other = midway.Tent(network), midway.Tent(network)
    first, second = batches(2)
    method(first)
    other.load_state_dict(method.state_dict())
    assert torch.equal(method(second), other(second))


def test_a_snapshot_of_something_else_is_refused_with_the_state_as_before() -> None:
    method, other = midway.Tent(tiny_network(), lr=1e-2), midway.EATA(tiny_network())
    clustered = midway.adapt(tiny_network(), "tent", statistics="clustered")
    for images in batches(2):
        method(images)
        other(images)
        clustered(images)
    before = method.snapshot()
    for foreign in (other.snapshot(), clustered.snapshot()):
        with pytest.raises(ValueError, match="the snapshot is of another method"):
            method.restore(foreign)
    with pytest.raises(TypeError, match="restore takes what snapshot"):
        method.restore(method.state_dict())
    torch.testing.assert_close(method.snapshot()["tensors"], before["tensors"], rtol=0, atol=0)


def test_snapshot_and_restore_go_back_to_any_moment() -> None:
    method = midway.Tent(tiny_network(), lr=1e-2)
    first, second, third = batches(3)
    method(first)
    moment = method.snapshot()
    expected = method(second)
    method(third)
    method.restore(moment)
    assert torch.equal(method(second), expected)


def test_settings_are_checked_by_name_and_kind() -> None:
    for settings, said in (
        ({"learning_rate": 1}, "unknown hyper-parameter of Tent 'learning_rate'"),
        ({"lr": "1e-3"}, "lr must be a number, got '1e-3'"),
        ({"lr": True}, "lr must be a number, got True"),
        ({"steps": 1.5}, "steps must be an integer, got 1.5"),
        ({"steps": 2.0}, "steps must be an integer, got 2.0"),
        ({"statistics": "clustered"}, r"Tent\(midway.clustered\(model\)\)"),
    ):
        with pytest.raises(TypeError, match=said):
            midway.Tent(tiny_network(), **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="betas must be at least 0 and below 1"):
        midway.Tent(tiny_network(), betas=(2, 3))
    with pytest.raises(ValueError, match="lr must be at least 0"):
        midway.Tent(tiny_network(), lr=-1)
    for name, setting in (("tent", "lr"), ("memo", "lr"), ("bn", "prior"), ("sar", "rho"), ("eata", "margin")):
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=f"{setting} must be a finite number"):
                midway.adapt(tiny_network(), name, **{setting: value})
    with pytest.raises(TypeError, match="already adapted by Tent"):
        midway.Tent(nn.DataParallel(midway.Tent(tiny_network())))
    assert midway.Tent(tiny_network(), lr=torch.tensor(0.5).item(), steps=2).steps == 2


@pytest.mark.parametrize("name", [name for name in midway.methods.names() if name != "source"])
def test_half_precision_is_refused_where_weights_move_and_works_elsewhere(name: str) -> None:
    network = tiny_network().to(torch.bfloat16)
    moves = name not in ("bn", "dda", "t3a", "lame", "dua")
    if moves:
        with pytest.raises(
            TypeError, match=r"too coarse for the small updates of adaptation: give the model as float32"
        ):
            midway.adapt(network, name)
    else:
        method = midway.adapt(network, name)
        for images in batches(2):
            assert method(images.to(torch.bfloat16)).isfinite().all()


@pytest.mark.parametrize("name", midway.methods.names())
def test_whole_methods_are_saved_moved_and_unwrapped(name: str, tmp_path: Path) -> None:
    method = midway.adapt(nn.DataParallel(tiny_network()), name)
    assert not isinstance(method.model, nn.DataParallel)
    first, second = batches(2)
    method(first)
    torch.save(method, tmp_path / "method.pt")
    loaded = torch.load(tmp_path / "method.pt", weights_only=False)
    assert torch.equal(loaded(second), method(second))
    twice = midway.adapt(tiny_network(), name).double()
    for images in (first, second):
        assert twice(images.double()).isfinite().all()


def test_networks_that_cannot_be_adapted_are_refused() -> None:
    with pytest.raises(ValueError, match="a single logit"):
        midway.Tent(
            nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1))
        )(batches(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.trace(tiny_network(), batches(1)[0])  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match=r"give the nn\.Module it was compiled from"):
        midway.Source(scripted)
    for refuses in (midway.MEMO, midway.DUA):
        with pytest.raises(ValueError, match="does not support clustered statistics: give it the plain network"):
            refuses(midway.clustered(tiny_network()))


def test_the_number_of_trainable_weights() -> None:
    assert midway.Tent(midway.models.create("resnet20")).num_trainable() == 1568


def test_an_adapted_network_is_no_source() -> None:
    with pytest.raises(TypeError, match="already adapted by Tent: give the network that you adapted"):
        midway.adapt(midway.Tent(tiny_network()), "bn")
    with pytest.raises(TypeError, match=r"Module, got str: midway.models.load returns networks by name"):
        midway.adapt("wrn16_2.cifar10", "bn")  # type: ignore[arg-type]


def test_editors_see_the_hyperparameters() -> None:
    assert str(inspect.signature(midway.BN)) == "(model: 'nn.Module', *, prior: 'float' = 0) -> 'None'"
    for name in midway.methods.names():
        shown = list(inspect.signature(midway.methods.find(name)).parameters)
        assert shown == ["model", *midway.methods.hyperparameters(name)]
