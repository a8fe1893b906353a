from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.image_statistics import Moments
from midway.adaptation.views import CROP_NUMBERS, crops, draw, quarter_turns
from midway.methods import dua
from midway.methods.dua import DUA, update_running_statistics
from midway.testing import batches, tiny_network


def rotated(image: Tensor, quarters: int) -> Tensor:
    """Turn an image counter-clockwise: each time the last column becomes the first row."""
    for _ in range(quarters):
        image = image.flip(-1).transpose(-1, -2)
    return image


def naive_dua(network: nn.Module, stream: list[Tensor], copies: int, most: int, *, turn: bool = False) -> list[Tensor]:
    """DUA from its description: a training-mode pass over the copies of one image at a time."""
    network = copy.deepcopy(network).eval()
    layers = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    generator = torch.Generator().manual_seed(0)
    momentum, seen, answers = 0.1, 0, []
    with torch.no_grad():
        for images in stream:
            for image in images:
                if seen == most:
                    break
                momentum *= 0.94
                for layer in layers:
                    layer.train()
                    layer.momentum = momentum + 0.005
                numbers = draw(1, copies, generator, CROP_NUMBERS + turn)
                made = list(crops(image[None], numbers)[0])
                if turn:
                    made = [rotated(each, int(4 * u)) for each, u in zip(made, numbers[0, :, -1].tolist(), strict=True)]
                network(torch.stack(made))
                network.eval()
                seen += 1
            answers.append(network(images))
    return answers


@pytest.mark.parametrize("most", [0, 7, 100])
@pytest.mark.parametrize("at_once", [1, 3, 12])
def test_agrees_with_one_image_at_a_time(monkeypatch: pytest.MonkeyPatch, most: int, at_once: int) -> None:
    monkeypatch.setattr(dua, "VALUES_PER_PASS", at_once * 8 * 3 * 16 * 16)
    stream = batches(3)
    method = DUA(tiny_network(), copies=8, images=most)
    for images, expected in zip(stream, naive_dua(tiny_network(), stream, 8, most), strict=True):
        torch.testing.assert_close(method(images), expected, rtol=1e-3, atol=1e-4)
    assert method.adapted_images == min(most, 36)


def test_as_published_copies_are_turned_and_eighty_images_count() -> None:
    stream = batches(8)
    method = midway.adapt(tiny_network(), "dua", preset="published", copies=8)
    for images, expected in zip(stream, naive_dua(tiny_network(), stream, 8, 80, turn=True), strict=True):
        torch.testing.assert_close(method(images), expected, rtol=1e-3, atol=1e-4)
    assert method.diagnostics == {}
    assert method.adapted_images == 80  # type: ignore[attr-defined]
    plain = DUA(tiny_network(), copies=8, images=80)
    assert not torch.allclose(plain(stream[0]), naive_dua(tiny_network(), stream[:1], 8, 80, turn=True)[0], atol=1e-3)


def test_quarter_turns_by_hand_and_of_images_that_are_not_square() -> None:
    image = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    views = image.expand(1, 4, 1, 2, 2)
    turned = quarter_turns(views, torch.tensor([[0.1, 0.3, 0.6, 0.9]]))
    expected = [[[1, 2], [3, 4]], [[2, 4], [1, 3]], [[4, 3], [2, 1]], [[3, 1], [4, 2]]]
    assert turned[0, :, 0].tolist() == expected
    wide = torch.tensor([[1.0, 2.0, 3.0]]).expand(1, 2, 1, 1, 3)
    assert quarter_turns(wide, torch.tensor([[0.4, 0.6]]))[0, :, 0, 0].tolist() == [[1, 2, 3], [3, 2, 1]]


def test_how_the_stream_is_cut_does_not_matter() -> None:
    (images,) = batches(1)
    whole, halves = DUA(tiny_network(), copies=8, images=None), DUA(tiny_network(), copies=8, images=None)
    whole(images)
    halves(images[:5])
    halves(images[5:])
    for key, value in whole.model.state_dict().items():
        torch.testing.assert_close(halves.model.state_dict()[key], value)


def test_closed_form_of_three_moves_by_hand() -> None:
    layer = nn.BatchNorm1d(1)
    moments = Moments(torch.tensor([[10.0], [20.0], [30.0]]), torch.tensor([[4.0], [4.0], [8.0]]), 5)
    update_running_statistics(layer, [moments], [0.5, 0.25, 0.1])
    mean, var = 0.0, 1.0
    for momentum, m, v in ((0.5, 10, 5), (0.25, 20, 5), (0.1, 30, 10)):  # variances times 5 / 4
        mean, var = (1 - momentum) * mean + momentum * m, (1 - momentum) * var + momentum * v
    assert layer.running_mean is not None
    assert layer.running_var is not None
    assert layer.running_mean.item() == pytest.approx(mean)
    assert layer.running_var.item() == pytest.approx(var)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_layer_that_runs_twice_follows_twice(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    def recurrent() -> nn.Sequential:
        layers = list(tiny_network().children())
        return nn.Sequential(*layers[:5], layers[4], *layers[5:])  # the second norm layer again

    monkeypatch.setattr(dua, "VALUES_PER_PASS", at_once * 8 * 3 * 16 * 16)
    stream = batches(2)
    method = DUA(recurrent(), copies=8)
    for images, expected in zip(stream, naive_dua(recurrent(), stream, 8, 100), strict=True):
        torch.testing.assert_close(method(images), expected, rtol=1e-3, atol=1e-4)


class Activated(nn.BatchNorm2d):
    """A BatchNorm layer with a way of its own, as in timm."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


def test_homemade_batch_norms_adapt_one_image_at_a_time() -> None:
    plain = tiny_network()
    homemade = tiny_network()
    for place in (1, 4):
        layer = Activated(8)
        layer.load_state_dict(plain[place].state_dict())  # type: ignore[index]
        homemade[place] = layer.eval()  # type: ignore[operator]
    ours, theirs = DUA(plain, copies=8), DUA(homemade, copies=8)
    for images in batches(2):
        torch.testing.assert_close(theirs(images), ours(images), rtol=1e-4, atol=1e-4)
    assert ours.supports_many_images
    assert not theirs.supports_many_images


def test_only_statistics_move_and_only_for_the_first_images() -> None:
    method = DUA(tiny_network(), copies=8, images=12)
    first, second, _ = batches()
    before = copy.deepcopy(method.model.state_dict())
    method(first)
    after = copy.deepcopy(method.model.state_dict())
    moved = {key for key, value in after.items() if not torch.equal(value, before[key])}
    assert moved == {f"{layer}.{kind}" for layer in (1, 4) for kind in ("running_mean", "running_var")}
    method(second)
    assert all(torch.equal(value, after[key]) for key, value in method.model.state_dict().items())


def test_networks_without_batch_norm_earn_a_warning() -> None:
    with pytest.warns(UserWarning, match="DUA changes nothing"):
        method = DUA(tiny_network("group"))
    (images,) = batches(1)
    assert torch.equal(method(images), midway.Source(tiny_network("group"))(images))


def test_running_statistics_move_by_half() -> None:
    layer = nn.BatchNorm1d(1)
    update_running_statistics(layer, [Moments(torch.tensor([[4.0], [8.0]]), torch.ones(2, 1), 100)], [0.5, 0.5])
    assert layer.running_mean == 5  # 0 -> 2 -> 5


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match=r"momentum \* decay \+ floor at most 1"):
        DUA(tiny_network(), momentum=2.0)
    with pytest.raises(ValueError, match="copies must be at least 1, got 0"):
        DUA(tiny_network(), copies=0)
    with pytest.raises(ValueError, match="images must be at least 0, or None, got -1"):
        DUA(tiny_network(), images=-1)
    with pytest.raises(ValueError, match="crop must be 'pad', 'resize' or None, got 'zoom'"):
        DUA(tiny_network(), crop="zoom")  # type: ignore[arg-type]
