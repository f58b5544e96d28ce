"""The example trains to the same losses, bit for bit, in every mode of the device."""

import pathlib

import pytest

from device_under_test import DUT, ON_CPU, run_script

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "char_lm.py"

#: Steps whose losses are compared: AdamW's state differs from step 2 on.
STEPS = 8

#: Eight steps of float32 training against CPU, which sums in another order.
CPU_TOLERANCE = 2e-3

#: Prints the result of every aten op, those of the backward pass included.
RUN_WITH_PRINTS = """
import os, runpy, sys, torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

class PrintEveryResult(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {{}}))
        if not os.path.exists(sys.argv[-1]):  # the losses: later ops are not compared
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    repr(leaf)
        return result

sys.argv = ["char_lm.py", *sys.argv[1:]]
with PrintEveryResult():
    runpy.run_path({example!r}, run_name="__main__")
"""

RUN = """
import runpy, sys
sys.argv = ["char_lm.py", *sys.argv[1:]]
runpy.run_path({example!r}, run_name="__main__")
"""

MODES = {
    "plain": (RUN, {"NEURON_ADAPTIVE_EAGER": "0"}),
    "adaptive": (RUN, {"NEURON_ADAPTIVE_EAGER": "1"}),
    "launch_blocking": (RUN, {"NEURON_LAUNCH_BLOCKING": "1"}),
    "adaptive_blocking": (
        RUN,
        {"NEURON_LAUNCH_BLOCKING": "1", "NEURON_ADAPTIVE_EAGER": "1"},
    ),
    "prints_in_adaptive": (RUN_WITH_PRINTS, {"NEURON_ADAPTIVE_EAGER": "1"}),
}


def losses(source: str, env: dict[str, str], device: str, file: pathlib.Path) -> list:
    """The losses of a run as hexadecimal floats."""
    args = ["--device", device, "--steps", str(STEPS), "--losses", str(file)]
    script = source.format(example=str(EXAMPLE))
    done = run_script(script, args=args, env=env, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return file.read_text().split()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The losses in plain eager."""
    return losses(*MODES["plain"], DUT, tmp_path_factory.mktemp("plain") / "losses")


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "plain"])
def test_losses_are_those_of_plain_eager(
    mode: str, plain: list[str], tmp_path: pathlib.Path
):
    if ON_CPU:
        pytest.skip("for ever: modes are the device's, the device under test is CPU")
    assert losses(*MODES[mode], DUT, tmp_path / "losses") == plain


def test_losses_agree_with_cpu(plain: list[str], tmp_path: pathlib.Path):
    want = losses(*MODES["plain"], "cpu", tmp_path / "losses")
    for step, (one, other) in enumerate(zip(plain, want, strict=True)):
        difference = abs(float.fromhex(one) - float.fromhex(other))
        assert difference <= CPU_TOLERANCE, f"step {step + 1} differs by {difference}"


def test_losses_fall(plain: list[str]):
    assert float.fromhex(plain[-1]) < float.fromhex(plain[0])
