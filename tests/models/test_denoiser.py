"""The noise-predicting network in the package, and the interface to those of others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from midway import models
from midway.models import Denoiser, NoisePredictor, cosine_schedule, zoo

NOISY, LEVELS = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([1, 3])


class Half(nn.Module):
    """Predicts half of the input, in the form of the outputs of ``diffusers``."""

    def __init__(self, form: str = "sample") -> None:
        super().__init__()
        self.factor, self.form = nn.Parameter(torch.tensor(0.5)), form

    def forward(self, sample: Tensor, timestep: Tensor) -> Any:
        output = self.factor * sample
        forms = {"sample": SimpleNamespace(sample=output), "tuple": (output,), "tensor": output}
        return (forms | {"variances": torch.cat([output, torch.full_like(output, -0.5)], dim=1)})[self.form]


def pipeline(predicts: str = "epsilon", **unet: Any) -> Any:
    """A stand-in for a pipeline of ``diffusers``: the same attributes."""
    scheduler = SimpleNamespace(
        alphas_cumprod=torch.tensor([0.9, 0.6, 0.3, 0.1]), config=SimpleNamespace(prediction_type=predicts)
    )
    return SimpleNamespace(unet=Half(**unet), scheduler=scheduler)


@pytest.mark.parametrize("form", ["sample", "tuple", "tensor"])
def test_every_form_of_output(form: str) -> None:
    noise, variances = NoisePredictor(pipeline(form=form))(NOISY, LEVELS)
    assert noise.equal(0.5 * NOISY)
    assert variances is None


def test_learnt_variances_are_shares_between_the_smallest_and_the_largest() -> None:
    noise, variances = NoisePredictor(pipeline(form="variances"))(NOISY, LEVELS)
    assert noise.equal(0.5 * NOISY)
    assert variances is not None
    assert variances.unique().tolist() == [0.25]


def test_other_predictions_are_converted_to_noise() -> None:
    share = torch.tensor([0.6, 0.1])[:, None, None, None]
    clean, noise = torch.rand(2, 3, 8, 8), torch.randn(2, 3, 8, 8)
    noisy = share.sqrt() * clean + (1 - share).sqrt() * noise
    answers = {"sample": clean, "v_prediction": share.sqrt() * noise - (1 - share).sqrt() * clean, "epsilon": noise}
    for predicts, answer in answers.items():
        given = SimpleNamespace(unet=lambda x, t, answer=answer: answer, scheduler=pipeline(predicts).scheduler)
        torch.testing.assert_close(NoisePredictor(given)(noisy, LEVELS)[0], noise, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="unknown prediction_type of the scheduler 'flow'"):
        NoisePredictor(pipeline("flow"))


def test_schedules_are_found_named_or_given() -> None:
    assert NoisePredictor(pipeline()).alphas_cumprod.dtype == torch.float64
    assert NoisePredictor(Half(), "cosine").alphas_cumprod.equal(cosine_schedule())
    assert NoisePredictor(pipeline(), torch.tensor([0.5, 0.2])).alphas_cumprod.tolist() == pytest.approx([0.5, 0.2])
    with pytest.raises(ValueError, match=r'no alphas_cumprod, .* give schedule="linear"'):
        NoisePredictor(Half())
    with pytest.raises(ValueError, match="unknown schedule 'cosin': did you mean 'cosine'"):
        NoisePredictor(Half(), "cosin")
    for wrong in ([[0.5]], [0.2, 0.5], [1.0, 0.5], [0.5, 0.0]):
        with pytest.raises(ValueError, match="a vector of decreasing numbers between 0 and 1"):
            NoisePredictor(Half(), torch.tensor(wrong))


def test_what_is_no_denoiser_is_refused() -> None:
    with pytest.raises(TypeError, match=r"denoiser must be a network noise = denoiser\(noisy, t\).*, got int"):
        NoisePredictor(3)
    wrong = NoisePredictor(lambda noisy, t: noisy[:, :1], "linear")
    with pytest.raises(ValueError, match=r"noise of the shape of the images, \(2, 3, 8, 8\), got \(2, 1, 8, 8\)"):
        wrong(NOISY, LEVELS)


def test_the_schedule_keeps_its_precision_in_half_precision() -> None:
    predictor = NoisePredictor(Denoiser(widths=(8, 8), blocks=(1, 1))).half()
    assert predictor.alphas_cumprod.equal(cosine_schedule())


def test_sizes_that_are_not_multiples_are_padded_and_cropped() -> None:
    torch.manual_seed(0)
    denoiser = Denoiser(widths=(8, 16), blocks=(1, 1)).eval()
    for height, width in ((8, 8), (9, 7), (3, 16)):
        noisy = torch.randn(2, 3, height, width)
        assert denoiser(noisy, LEVELS).shape == noisy.shape
    padded = nn.functional.pad(noisy, (0, 0, 0, 1), mode="replicate")
    assert denoiser(padded, LEVELS)[:, :, :3].allclose(denoiser(noisy, LEVELS), atol=1e-6)


def test_widths_and_blocks_belong_together() -> None:
    with pytest.raises(ValueError, match="one entry per resolution"):
        Denoiser(widths=(8, 16), blocks=(1,))


@torch.no_grad()
def test_the_embedded_denoiser_is_as_good_as_its_card_says() -> None:
    """On the embedded test images: the noise that is left, and images nearer to the clean ones than the noisy."""
    import midway

    card, denoiser = zoo.denoiser_cards()[0], models.load_denoiser("unet.cifar10")
    images = torch.from_numpy(midway.data.load("cifar10-mini").images[:100]).permute(0, 3, 1, 2).float() / 127.5 - 1
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(1))
    for level in (100, 300):
        share = float(denoiser.alphas_cumprod[level])
        t = torch.full((len(images),), level)
        predicted = denoiser(share**0.5 * images + (1 - share) ** 0.5 * noise, t)
        loss = float((predicted - noise).square().mean())
        assert loss == pytest.approx(card.quality["loss"][str(level)], rel=0.15)


def test_the_weights_are_small_checked_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    card = zoo.denoiser_cards()[0]
    assert card.path.stat().st_size < 2.5e6
    with pytest.raises(ValueError, match=r"unknown denoiser 'unet.cifar'"):
        models.load_denoiser("unet.cifar")
    (tmp_path / card.file).write_bytes(b"other")
    card.write(tmp_path / "card.json")
    monkeypatch.setattr(zoo, "DENOISERS", tmp_path)
    with pytest.raises(models.CheckpointError, match="SHA-256"):
        models.load_denoiser("unet.cifar10")
