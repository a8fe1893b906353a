"""Pipelines of diffusers itself; skipped where it is not installed: pip install '.[diffusion]' in a clone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import midway
from midway.models import NoisePredictor
from midway.testing import batches, tiny_network

diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed: pip install '.[diffusion]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # what diffusers says about its own dependencies
IMAGES = batches(1, size=4)[0]


def pipeline(prediction_type: str = "epsilon") -> Any:
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=16,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    scheduler = diffusers.DDIMScheduler(prediction_type=prediction_type, clip_sample=False)
    return diffusers.DDIMPipeline(unet=unet.eval(), scheduler=scheduler)


@pytest.mark.parametrize("prediction_type", ["epsilon", "v_prediction", "sample"])
def test_the_image_behind_the_noise_is_that_of_its_scheduler(prediction_type: str) -> None:
    pipe = pipeline(prediction_type)
    noisy = torch.randn(2, 3, 16, 16)
    predictor = NoisePredictor(pipe)
    pipe.scheduler.set_timesteps(1000)
    with torch.no_grad():
        for level in (5, 400, 990):
            noise, variances = predictor(noisy, torch.tensor([level, level]))
            share = predictor.alphas_cumprod[level].float()
            image = (noisy - (1 - share).sqrt() * noise) / share.sqrt()
            output = pipe.unet(noisy, level).sample
            expected = pipe.scheduler.step(output, level, noisy).pred_original_sample
            torch.testing.assert_close(image, expected, atol=1e-3, rtol=1e-3)
            assert variances is None


def test_a_pipeline_from_a_folder_adapts_images(tmp_path: Path) -> None:
    pipe = pipeline()
    pipe.save_pretrained(tmp_path)
    loaded = diffusers.DDIMPipeline.from_pretrained(tmp_path)
    answers = [
        midway.DDA(tiny_network(), denoiser=each, respacing=20, steps=2, scale=0.5)(IMAGES) for each in (pipe, loaded)
    ]
    assert answers[0].equal(answers[1])
    assert not answers[0].equal(tiny_network()(IMAGES))
