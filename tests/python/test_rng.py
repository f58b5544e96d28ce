"""Generators of the device: state, seeds, forks, and draws in program order."""

import pytest
import torch

import torch_neuronx
from device_under_test import DUT, KIND, only_neuron

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]


def draw(count: int = 16, **how: object) -> torch.Tensor:
    """A draw that was not looked at."""
    return torch.rand(count, device=DUT, **how)


def offset_of(state: torch.Tensor) -> int:
    """The second 64 bits of a state."""
    return int(state.view(torch.int64)[1])


def test_state_is_sixteen_bytes_on_cpu():
    state = torch.neuron.get_rng_state()
    assert state.shape == (16,)
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"


def test_state_starts_with_the_seed():
    torch.neuron.manual_seed(1234)
    assert torch.neuron.get_rng_state().view(torch.int64).tolist() == [1234, 0]


def test_draw_advances_the_offset_when_recorded():
    torch.neuron.manual_seed(1)
    draw()
    first = offset_of(torch.neuron.get_rng_state())
    draw()
    assert 0 < first < offset_of(torch.neuron.get_rng_state())


def test_offset_advances_by_what_was_asked_not_by_when_it_ran():
    torch.neuron.manual_seed(1)
    draw()
    draw(100)
    late = offset_of(torch.neuron.get_rng_state())
    torch.neuron.manual_seed(1)
    draw().cpu()
    draw(100).cpu()
    assert offset_of(torch.neuron.get_rng_state()) == late


def test_state_roundtrip_repeats_the_draws():
    state = torch.neuron.get_rng_state()
    first = draw()
    torch.neuron.set_rng_state(state)
    assert torch.equal(draw().cpu(), first.cpu())


def test_state_of_the_wrong_size_is_refused():
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        torch.neuron.set_rng_state(torch.zeros(7, dtype=torch.uint8))


def test_manual_seed_of_torch_seeds_the_device():
    torch.manual_seed(5)
    first = draw()
    torch.manual_seed(5)
    assert torch.equal(draw().cpu(), first.cpu())


def test_manual_seed_all_seeds_every_device():
    torch.neuron.manual_seed_all(6)
    first = draw()
    torch.neuron.manual_seed_all(6)
    assert torch.equal(draw().cpu(), first.cpu())


def test_initial_seed_is_the_seed():
    torch.neuron.manual_seed(77)
    assert torch.neuron.default_generators[0].initial_seed() == 77


def test_default_generators_are_one_per_device():
    assert len(torch.neuron.default_generators) == torch.neuron.device_count()


def test_different_seeds_give_different_draws():
    torch.manual_seed(1)
    first = draw()
    torch.manual_seed(2)
    assert not torch.equal(draw().cpu(), first.cpu())


def test_generator_repeats_under_its_seed():
    generator = torch.Generator(device=DUT)
    first = draw(generator=generator.manual_seed(3))
    second = draw(generator=generator.manual_seed(3))
    assert generator.device.type == KIND
    assert torch.equal(first.cpu(), second.cpu())


def test_generator_leaves_the_default_stream_alone():
    torch.manual_seed(4)
    before = torch.neuron.get_rng_state()
    draw(generator=torch.Generator(device=DUT).manual_seed(3))
    assert torch.equal(torch.neuron.get_rng_state(), before)


def test_generator_state_roundtrip():
    generator = torch.Generator(device=DUT).manual_seed(8)
    draw(generator=generator)
    state = generator.get_state()
    first = draw(generator=generator)
    generator.set_state(state)
    assert state.shape == (16,)
    assert torch.equal(draw(generator=generator).cpu(), first.cpu())


def test_generator_clone_continues_alike():
    generator = torch.Generator(device=DUT).manual_seed(9)
    draw(generator=generator)
    twin = generator.clone_state()
    one, other = draw(generator=generator), draw(generator=twin)
    assert torch.equal(one.cpu(), other.cpu())


def test_cpu_generator_is_refused():
    with pytest.raises(RuntimeError):
        draw(generator=torch.Generator())


def test_seed_is_new_each_time():
    generator = torch.Generator(device=DUT)
    assert generator.seed() != generator.seed()


def test_fork_rng_restores_the_stream():
    torch.manual_seed(3)
    first, second = draw(), draw()
    torch.manual_seed(3)
    again = draw()
    with torch.random.fork_rng(device_type=KIND):
        torch.manual_seed(99)
        draw()
    assert torch.equal(again.cpu(), first.cpu())
    assert torch.equal(draw().cpu(), second.cpu())


def test_draws_do_not_depend_on_what_is_read_between_them():
    torch.manual_seed(10)
    want = [draw(7).cpu(), torch.randn(5, device=DUT).cpu(), draw(3).cpu()]
    torch.manual_seed(10)
    lazy = [draw(7), torch.randn(5, device=DUT), draw(3)]
    assert all(torch.equal(a.cpu(), b) for a, b in zip(lazy, want, strict=True))


def test_draw_that_is_thrown_away_still_counts():
    torch.manual_seed(11)
    draw()
    want = draw().cpu()
    torch.manual_seed(11)
    torch.empty(16, device=DUT).uniform_()
    assert torch.equal(draw().cpu(), want)


def test_draw_does_not_depend_on_the_layout_it_fills():
    torch.manual_seed(12)
    want = torch.empty(6, 4, device=DUT).normal_().cpu()
    torch.manual_seed(12)
    filled = torch.empty(4, 6, device=DUT).t().normal_()
    assert torch.equal(filled.cpu(), want)


def test_dropout_masks_repeat():
    x = torch.ones(1000, device=DUT)
    torch.manual_seed(13)
    first = torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(13)
    assert torch.equal(torch.nn.functional.dropout(x, 0.5).cpu(), first.cpu())


def test_dropout_gradient_uses_the_mask_of_its_forward():
    x = torch.ones(1000, device=DUT, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


@pytest.mark.parametrize(
    "make",
    [
        lambda g: torch.rand(9, device=DUT, generator=g),
        lambda g: torch.randn(9, device=DUT, generator=g),
        lambda g: torch.randint(0, 1000, (9,), device=DUT, generator=g),
        lambda g: torch.randperm(50, device=DUT, generator=g),
        lambda g: torch.bernoulli(torch.full((50,), 0.5, device=DUT), generator=g),
        lambda g: torch.multinomial(torch.ones(50, device=DUT), 9, generator=g),
        lambda g: torch.normal(0.0, 1.0, (9,), device=DUT, generator=g),
        lambda g: torch.poisson(torch.full((9,), 30.0, device=DUT), generator=g),
        lambda g: torch.empty(9, device=DUT).uniform_(generator=g),
        lambda g: torch.empty(9, device=DUT).normal_(generator=g),
        lambda g: torch.empty(9, device=DUT).exponential_(generator=g),
        lambda g: torch.empty(9, device=DUT).cauchy_(generator=g),
        lambda g: torch.empty(9, device=DUT).log_normal_(generator=g),
        lambda g: torch.empty(9, device=DUT).geometric_(0.05, generator=g),
        lambda g: torch.empty(9, device=DUT).random_(generator=g),
    ],
)
def test_random_op_follows_its_generator(make):
    generator = torch.Generator(device=DUT).manual_seed(14)
    first = make(generator).cpu()
    other = make(generator).cpu()
    generator.manual_seed(14)
    assert torch.equal(make(generator).cpu(), first)
    assert not torch.equal(first, other)


def test_checkpoint_state_of_a_process_is_complete():
    states = torch.neuron.get_rng_state_all()
    first = draw()
    torch.neuron.set_rng_state_all(states)
    assert torch.equal(draw().cpu(), first.cpu())


@pytest.mark.parametrize("count", [3, 33330, 50001, 66662])
def test_numbers_do_not_depend_on_threads(count):
    """Sizes whose halves are odd: pieces of parallel work may start anywhere."""

    def draw_all():
        torch.manual_seed(3)
        t = torch.ones(count, device=DUT)
        drawn = [
            torch.nn.functional.dropout(t, 0.5),
            torch.empty_like(t).bernoulli_(0.3),
            torch.rand_like(t),
            torch.randn_like(t),
        ]
        return [d.cpu() for d in drawn]

    found = []
    try:
        for threads in (1, 2, 3):
            torch_neuronx._C._set_num_threads(threads)
            found.append(draw_all())
    finally:
        torch_neuronx._C._set_num_threads(0)
    for other in found[1:]:
        for ours, wanted in zip(other, found[0], strict=True):
            assert torch.equal(ours, wanted)
