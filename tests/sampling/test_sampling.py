from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import midway
from midway.adaptation.samples import sample_images
from midway.functional import free_energy
from midway.sampling import Randomness, ReplayBuffer, UniformNoise, langevin, langevin_step
from midway.testing import tiny_network

WEIGHT = torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.0]])  # three classes, images of one row of two pixels


def linear_energy(images: Tensor) -> Tensor:
    return free_energy(images.flatten(1) @ WEIGHT.T)


def test_free_energy_by_hand() -> None:
    logits = torch.tensor([[math.log(1.0), math.log(2.0), math.log(5.0)], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(free_energy(logits), torch.tensor([-math.log(8.0), -math.log(3.0)]))
    assert free_energy(torch.tensor([[1000.0, -1000.0]])).item() == -1000  # no overflow


def test_one_step_on_a_linear_softmax_model_has_a_closed_form() -> None:
    """dE/dx = -W^T softmax(W x)."""
    x = torch.tensor([[[[0.3, 0.7]]], [[[0.9, 0.1]]]])
    logits = x.flatten(1) @ WEIGHT.T
    expected = x.flatten(1) + 0.2 / 2 * (logits.softmax(1) @ WEIGHT)
    walk = langevin(linear_energy, x, steps=1, step_size=0.2, noise=0)
    torch.testing.assert_close(walk.images.flatten(1), expected)
    assert not walk.stalled.any()


def test_the_default_noise_is_the_square_root_of_the_step_size() -> None:
    x = torch.zeros(400, 1, 10, 10)
    flat = lambda images: 0 * images.sum(dim=(1, 2, 3))  # noqa: E731
    for noise, expected in ((None, 0.3), (0.05, 0.05)):
        walk = langevin(flat, x, steps=1, step_size=0.09, noise=noise, generator=torch.Generator().manual_seed(0))
        assert walk.images.std().item() == pytest.approx(expected, rel=0.02)


def test_the_noise_comes_from_the_generator_alone() -> None:
    x = torch.rand(3, 1, 1, 2)
    walks = [
        langevin(linear_energy, x, steps=4, step_size=0.1, generator=torch.Generator().manual_seed(seed)).images
        for seed in (1, 1, 2)
    ]
    assert torch.equal(walks[0], walks[1])
    assert not torch.equal(walks[0], walks[2])
    with pytest.raises(ValueError, match="need a generator"):
        langevin(linear_energy, x, steps=1, step_size=0.1)


def test_clip_and_clamp() -> None:
    steep = lambda images: 1000 * images.sum(dim=(1, 2, 3))  # noqa: E731
    x = torch.full((1, 1, 1, 2), 0.5)
    clipped = langevin(steep, x, steps=1, step_size=0.2, noise=0, clip=2.0).images
    torch.testing.assert_close(clipped, torch.full((1, 1, 1, 2), 0.3))
    clamped = langevin(steep, x, steps=3, step_size=0.2, noise=0, clamp=(0.0, 1.0)).images
    assert torch.equal(clamped, torch.zeros(1, 1, 1, 2))


def test_an_image_whose_gradient_is_not_finite_stays_and_is_counted() -> None:
    def broken(images: Tensor) -> Tensor:
        return (images.sum(dim=(1, 2, 3)) - 1).sqrt()  # no real number for dark images

    x = torch.stack([torch.zeros(1, 1, 2), torch.ones(1, 1, 2)])
    walk = langevin(broken, x, steps=2, step_size=0.1, noise=0)
    assert torch.equal(walk.images[0], x[0])
    assert not torch.equal(walk.images[1], x[1])
    assert walk.stalled.tolist() == [True, False]
    far = langevin(lambda images: images.sum(dim=(1, 2, 3)) * 1e30, x, steps=1, step_size=1e30, noise=0)
    assert torch.equal(far.images, x)  # a finite gradient, but a step to infinity
    assert far.stalled.all()
    for limits in ({"clip": 1.0}, {"clamp": (0.0, 1.0)}):  # which would make a finite step of an infinite gradient
        endless = langevin_step(x, torch.full_like(x, torch.inf), step_size=0.1, noise=0, **limits)  # type: ignore[arg-type]
        assert torch.equal(endless.images, x)
        assert endless.stalled.all()


def test_a_walk_changes_neither_its_start_nor_gradients_of_weights() -> None:
    weight = WEIGHT.clone().requires_grad_()
    x = torch.rand(2, 1, 1, 2)
    before = x.clone()
    walk = langevin(lambda images: free_energy(images.flatten(1) @ weight.T), x, steps=2, step_size=0.1, noise=0)
    assert torch.equal(x, before)
    assert weight.grad is None
    assert not walk.images.requires_grad
    assert torch.equal(langevin(linear_energy, x, steps=0, step_size=0.1, noise=0).images, x)


@given(count=st.integers(1, 6), steps=st.integers(0, 3))
@settings(max_examples=20)
def test_an_images_walk_does_not_depend_on_the_rest_of_the_batch(count: int, steps: int) -> None:
    x = torch.rand(count, 1, 1, 2, generator=torch.Generator().manual_seed(count))
    together = langevin(linear_energy, x, steps=steps, step_size=0.5, noise=0).images
    alone = torch.cat([langevin(linear_energy, one[None], steps=steps, step_size=0.5, noise=0).images for one in x])
    torch.testing.assert_close(together, alone)


def test_fresh_chains_are_uniform_noise_and_visited_ones_come_back() -> None:
    buffer, generator = ReplayBuffer(capacity=50, reinit_probability=0.0), torch.Generator().manual_seed(0)
    like = torch.zeros(200, 3, 4, 4)
    places, start = buffer.draw(like, generator)
    assert -1 <= start.min() < -0.99
    assert 0.99 < start.max() <= 1
    assert places.unique().numel() > 45
    buffer.put(places, places.float().view(-1, 1, 1, 1).expand_as(start))
    again, images = buffer.draw(like, generator)
    visited = torch.isin(again, places)
    assert torch.equal(images[visited].amax(dim=(1, 2, 3)), again[visited].float())
    assert len(buffer) == places.unique().numel()


def test_some_chains_start_afresh() -> None:
    buffer, generator = ReplayBuffer(capacity=10, reinit_probability=0.3), torch.Generator().manual_seed(0)
    buffer.put(torch.arange(10), torch.full((10, 1, 2, 2), 7.0))
    _, images = buffer.draw(torch.zeros(4000, 1, 2, 2), generator)
    assert (images.amax(dim=(1, 2, 3)) < 7).float().mean().item() == pytest.approx(0.3, abs=0.03)


@given(visits=st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 99)), min_size=1, max_size=12), max_size=6))
def test_the_buffer_agrees_with_a_dictionary(visits: list[list[tuple[int, int]]]) -> None:
    buffer, plain = ReplayBuffer(capacity=8, reinit_probability=0.0), dict[int, int]()
    for visit in visits:
        places, values = torch.tensor([place for place, _ in visit]), torch.tensor([float(v) for _, v in visit])
        buffer.put(places, values.view(-1, 1, 1, 1))
        plain.update(visit)
    copy = ReplayBuffer(capacity=8, reinit_probability=0.0)
    copy.load_state_dict(buffer.state_dict())
    for one in (buffer, copy):
        assert len(one) == len(plain)
        places, images = one.draw(torch.zeros(64, 1, 1, 1), torch.Generator().manual_seed(1))
        for place, value in zip(places.tolist(), images.flatten().tolist(), strict=True):
            assert value == plain[place] if place in plain else -1 <= value <= 1


def test_buffers_refuse_what_does_not_fit() -> None:
    buffer, generator = ReplayBuffer(capacity=4), torch.Generator()
    places, images = buffer.draw(torch.zeros(2, 3, 8, 8), generator)
    buffer.put(places, images)
    with pytest.raises(ValueError, match=r"contains images of shape \(3, 8, 8\), got \(3, 9, 9\): reset"):
        buffer.draw(torch.zeros(2, 3, 9, 9), generator)
    with pytest.raises(ValueError, match="buffer of 4 chains, this one has 5"):
        ReplayBuffer(capacity=5).load_state_dict(buffer.state_dict())
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        ReplayBuffer(capacity=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        ReplayBuffer(reinit_probability=1.5)
    with pytest.raises(ValueError, match="low must be below high"):
        ReplayBuffer(low=1, high=1)


def test_randomness_resumes_where_it_was() -> None:
    cpu = torch.device("cpu")
    one = Randomness(5)
    torch.rand(3, generator=one.on(cpu))
    state = one.state_dict()
    expected = torch.rand(3, generator=one.on(cpu))
    two = Randomness(0)
    two.load_state_dict(state)
    assert torch.equal(torch.rand(3, generator=two.on(cpu)), expected)
    two.load_state_dict(state | {"device": "meta"})  # one that is not here: the seed again
    assert torch.equal(torch.rand(3, generator=two.on(cpu)), torch.rand(3, generator=Randomness(5).on(cpu)))
    two.load_state_dict(Randomness(5).state_dict())
    assert torch.equal(torch.rand(3, generator=two.on(cpu)), torch.rand(3, generator=Randomness(5).on(cpu)))


def test_sample_images_walks_from_noise_and_changes_nothing() -> None:
    network = tiny_network()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    drawn = sample_images(network, 5, shape=(3, 12, 10), steps=3, seed=2)
    assert drawn.shape == (5, 3, 12, 10)
    assert 0 <= drawn.min() < drawn.max() <= 1
    assert torch.equal(drawn, sample_images(network, 5, shape=(3, 12, 10), steps=3, seed=2))
    assert not torch.equal(drawn, sample_images(network, 5, shape=(3, 12, 10), steps=3, seed=3))
    assert all(torch.equal(value, network.state_dict()[key]) for key, value in before.items())
    source = midway.Source(network)
    assert torch.equal(drawn, sample_images(source, 5, shape=(3, 12, 10), steps=3, seed=2))
    start = sample_images(network, 64, steps=0)
    lower = free_energy(network(sample_images(network, 64, steps=20, noise=0))).mean()
    assert lower < free_energy(network(start)).mean()


def test_without_a_buffer_every_chain_is_new_noise_and_nothing_is_stored() -> None:
    noise, like = (
        UniformNoise(low=0.25, high=0.5),
        torch.zeros(6, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    )
    generator = torch.Generator().manual_seed(0)
    indices, first = noise.draw(like, generator)
    noise.put(indices, torch.full_like(first, 9.0))
    _, second = noise.draw(like, generator)
    assert not torch.equal(first, second)
    assert first.is_contiguous(memory_format=torch.channels_last)
    assert 0.25 <= second.min() < 0.27 < 0.48 < second.max() <= 0.5
    assert noise.state_dict() == {}
    noise.load_state_dict({})
    with pytest.raises(ValueError, match="low must be below high, got 1 and 0"):
        UniformNoise(low=1, high=0)
