"""Implicit synchronisations: found, named with their line, or refused."""

import os
import warnings

import pytest
import torch

from device_under_test import DUT, only_neuron, run_script

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]

HERE = os.path.basename(__file__)


@pytest.fixture(autouse=True)
def back():
    yield
    torch.neuron.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: bool((x > 0).all()),
        lambda x: torch.equal(x, x.clone()),
        lambda x: repr(x),
    ],
    ids=["item", "cpu", "tolist", "nonzero", "bool", "equal", "repr"],
)
def test_a_wait_is_an_error_or_a_warning_with_its_line(wait):
    x = torch.ones(4, device=DUT) + 1
    with (
        torch.neuron.sync_debug_mode("error"),
        pytest.raises(RuntimeError, match=rf"waits for the device at .*{HERE}"),
    ):
        wait(x)
    with torch.neuron.sync_debug_mode("warn"):
        with pytest.warns(UserWarning, match=rf"\[sync\] .*{HERE}") as caught:
            wait(x)
        assert any(str(w.filename).endswith(HERE) for w in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wait(x)


def test_what_does_not_wait_is_not_reported():
    with torch.neuron.sync_debug_mode("error"):
        x = torch.ones(4, device=DUT) * 2
        y = torch.tensor([1.0, 2.0], device=DUT)
        z = torch.arange(3).to(DUT)
        x.add_(1).requires_grad_().sum().backward()
        torch.neuron.synchronize()
    assert y.tolist() == [1.0, 2.0]
    assert z.tolist() == [0, 1, 2]


def test_the_refused_wait_leaves_everything_as_it_was():
    x = torch.ones(4, device=DUT) + 1
    with (
        torch.neuron.sync_debug_mode(2),
        pytest.raises(RuntimeError, match="value-read"),
    ):
        x.tolist()
    assert x.tolist() == [2.0] * 4


def test_modes_have_names_and_numbers():
    torch.neuron.set_sync_debug_mode("warn")
    assert torch.neuron.get_sync_debug_mode() == 1
    torch.neuron.set_sync_debug_mode(2)
    assert torch.neuron.get_sync_debug_mode() == 2
    torch.neuron.sync_debug_mode("default")
    assert torch.neuron.get_sync_debug_mode() == 0
    with pytest.raises(ValueError, match="no such mode: got 'loud'"):
        torch.neuron.set_sync_debug_mode("loud")


def test_the_environment_sets_the_mode():
    source = "import torch\nprint(torch.neuron.get_sync_debug_mode())\n"
    done = run_script(source, env={"NEURON_SYNC_DEBUG_MODE": "2"})
    assert done.stdout == "2\n"
