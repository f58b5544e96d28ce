"""Errors of whole processes: no memory, failed compiles, and stacks in messages."""

import pytest

from device_under_test import only_neuron, run_script

pytestmark = only_neuron


class TestOutOfMemory:
    SOURCE = """
import torch
kept = torch.ones(1 << 20, device="neuron")
try:
    torch.empty(1 << 26, device="neuron")
except torch.OutOfMemoryError as error:
    print(error)
print((kept + 1).sum().item())
"""

    @pytest.mark.parametrize("mode_of", ["0", "1"])
    def test_it_says_how_much_and_the_device_works_after_it(self, mode_of: str):
        env = {"NEURON_SIM_HBM_BYTES": str(64 << 20), "NEURON_ADAPTIVE_EAGER": mode_of}
        done = run_script(self.SOURCE, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        first, *_, last = done.stdout.splitlines()
        assert "requested 0.25 GiB" in first and "of 0.06 GiB" in first
        assert last == str(float(2 << 20))


class TestCompiles:
    SOURCE = """
import time, warnings, torch
warnings.simplefilter("always")
x = torch.randn(1 << 16, device="neuron")
torch.neuron._C._fail_compiles(True)
def run(scale):
    return [(torch.tanh(x * scale) + op(x)).sum().item() for op in OPS for _ in range(4)]
OPS = torch.exp, torch.sin, torch.cos
with warnings.catch_warnings(record=True) as caught:
    values = run(0.5)
    while torch.neuron.compile_report()["waiting"]:
        time.sleep(0.001)
    torch.neuron.synchronize()
    values += run(0.25)
texts = [str(w.message) for w in caught if "[codegen]" in str(w.message)]
print(torch.neuron.compile_report()["failures"], len(texts))
print(texts[0])
print(sum(values).hex())
"""

    def test_a_failed_compile_warns_once_and_changes_no_bit(self):
        env = {
            "NEURON_ADAPTIVE_EAGER": "1",
            "NEURON_COMPILE_AFTER": "1",
            "TORCH_NEURONX_NEFF_DISABLE_CACHE": "1",
        }
        failed = run_script(self.SOURCE, env=env)
        assert failed.returncode == 0, failed.stderr[-2000:]
        counts, warning, value = failed.stdout.splitlines()
        failures, warned = counts.split()
        assert float(failures) > 1
        assert warned == "1"
        assert "was not compiled and stays interpreted" in warning
        assert "a test asked for a failure" in warning
        source = self.SOURCE.replace("_fail_compiles(True)", "_fail_compiles(False)")
        source = source.replace("print(texts[0])", "print(len(texts))")
        sound = run_script(source, env=env)
        assert sound.returncode == 0, sound.stderr[-2000:]
        counts, warned, same = sound.stdout.splitlines()
        assert (float(counts.split()[0]), warned) == (0.0, "0")
        assert same == value

    def test_a_process_that_never_reads_again_still_hears_of_it(self):
        source = self.SOURCE.split("with warnings")[0] + (
            "run(0.5)\nwhile torch.neuron.compile_report()['waiting']: pass\n"
        )
        env = {"NEURON_COMPILE_AFTER": "1", "NEURON_ADAPTIVE_EAGER": "1"}
        done = run_script(source, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stderr.count("was not compiled and stays interpreted") == 1


class TestStackTrace:
    SOURCE = """
import torch
def outer():
    return inner()
def inner():
    return torch.zeros(3, 2, device="neuron")[torch.tensor([7], device="neuron")]
late = outer()
try:
    torch.neuron.synchronize()
except IndexError as error:
    print(error)
"""

    @pytest.mark.parametrize("mode_of", ["0", "1"])
    def test_the_whole_stack_is_there_when_asked_for(self, mode_of: str):
        env = {
            "TORCH_NEURONX_ENABLE_STACK_TRACE": "1",
            "NEURON_ADAPTIVE_EAGER": mode_of,
        }
        text = run_script(self.SOURCE, env=env).stdout
        lines = [line.strip() for line in text.splitlines()]
        assert "<string>:6 in inner" in lines
        assert "<string>:4 in outer" in lines
        assert "<string>:7 in <module>" in lines
        stack = ("6 in inner", "4 in outer", "7 in <module>")
        places = [lines.index(f"<string>:{place}") for place in stack]
        assert places == sorted(places)

    def test_one_line_is_there_when_not(self):
        text = run_script(self.SOURCE).stdout
        assert "recorded at <string>:6" in text
        assert "in outer" not in text
