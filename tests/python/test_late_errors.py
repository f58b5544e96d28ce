"""Errors that come when an op runs, not when it is recorded."""

import os

import pytest
import torch
import torch.nn.functional as F

from device_under_test import DUT, only_neuron

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]


def bad_index() -> torch.Tensor:
    """An op that fails only when it runs: its index is out of range."""
    table = torch.zeros(3, 2, device=DUT)
    index = torch.tensor([7], device=DUT)
    return table.index_add_(0, index, torch.ones(1, 2, device=DUT))


def test_late_error_raises_at_the_next_synchronisation():
    bad_index()
    with pytest.raises((RuntimeError, IndexError)):
        torch.neuron.synchronize()


@pytest.mark.parametrize(
    "word", ["index_add", os.path.basename(__file__), "f32[3, 2]", "i64[1]"]
)
def test_late_error_names_op_shapes_types_and_python_line(word: str):
    bad_index()
    with pytest.raises((RuntimeError, IndexError)) as raised:
        torch.neuron.synchronize()
    assert word.lower() in str(raised.value).lower()


def test_late_error_names_the_line_that_recorded_the_op():
    line = bad_index.__code__.co_firstlineno + 4
    bad_index()
    with pytest.raises((RuntimeError, IndexError)) as raised:
        torch.neuron.synchronize()
    assert f"{os.path.basename(__file__)}:{line}" in str(raised.value)


def test_reading_the_failed_result_raises():
    broken = bad_index()
    with pytest.raises((RuntimeError, IndexError)):
        broken.sum().item()


def test_a_failure_does_not_spread_within_a_fused_kernel():
    good = torch.ones(3, 2, device=DUT)
    broken = bad_index()
    depends = broken + 1
    apart = good * 2 + 1
    with pytest.raises((RuntimeError, IndexError)):
        torch.neuron.synchronize()
    assert apart.tolist() == [[3.0, 3.0]] * 3
    with pytest.raises((RuntimeError, IndexError)):
        depends.tolist()


def test_device_works_after_a_late_error():
    bad_index()
    with pytest.raises((RuntimeError, IndexError)):
        torch.neuron.synchronize()
    torch.neuron.synchronize()
    x = torch.ones(8, device=DUT, requires_grad=True)
    F.silu(x * 2).sum().backward()
    assert torch.isfinite(x.grad).all().item()


def test_unrelated_tensors_stay_right_after_a_late_error():
    before = torch.arange(6.0, device=DUT) * 2
    bad_index()
    after = torch.arange(6.0, device=DUT) * 3
    with pytest.raises((RuntimeError, IndexError)):
        torch.neuron.synchronize()
    assert before.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert after.tolist() == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]


def test_first_of_two_late_errors_is_raised():
    table, index = torch.ones(2, 2, device=DUT), torch.tensor([99], device=DUT)
    torch.neuron.synchronize()
    bad_index()
    F.embedding(index, table)
    with pytest.raises((RuntimeError, IndexError), match="index_add"):
        torch.neuron.synchronize()


def test_late_error_in_backward_is_raised():
    w = torch.ones(3, 2, device=DUT, requires_grad=True)
    F.embedding(torch.tensor([5], device=DUT), w).sum().backward()
    with pytest.raises((RuntimeError, IndexError)):
        torch.neuron.synchronize()
    torch.neuron.synchronize()
