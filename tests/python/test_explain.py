"""Answers to "why": what happened in a block, and what is in its windows."""

import json
import os

import pytest
import torch
import torch.nn.functional as F

from device_under_test import DUT, line_after, only_neuron, run_script

pytestmark = only_neuron

HERE = os.path.basename(__file__)


@pytest.fixture(autouse=True)
def adaptive():
    with torch.neuron.adaptive_eager():
        yield


def chain(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2 + 1).exp()
    total = y.sum()
    return y / total


def run_adaptive(source: str, **env: str):
    done = run_script(
        source,
        env={"NEURON_ADAPTIVE_EAGER": "1", "NEURON_COMPILE_AFTER": "1", **env},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


class TestExplain:
    def test_a_window_has_its_reason_line_and_ops(self):
        x = torch.ones(64, device=DUT)
        torch.neuron.synchronize()
        with torch.neuron.explain() as why:
            (x + 1).mul_(3).tolist()
        (window, *_) = why["windows"]
        assert window["reason"] == "value-read"
        first = TestExplain.test_a_window_has_its_reason_line_and_ops
        assert window["line"].endswith(line_after(first, 4))
        assert window["least_ops"] == window["most_ops"] == 2
        assert why["report"]["windows"] == 1
        assert why["report"]["ops"] == 2

    def test_groups_and_why_neighbours_stayed_apart(self):
        x = torch.ones(4096, device=DUT)
        with torch.neuron.explain() as why:
            chain(x).tolist()
        fused = [group["ops"] for group in why["groups"]]
        assert "aten::mul, aten::add, aten::exp" in fused
        reasons = {
            (row["producer"], row["consumer"]): row["reason"] for row in why["apart"]
        }
        assert "aten::sum is not pointwise" in reasons["aten::exp", "aten::sum"]
        assert "aten::sum is not pointwise" in reasons["aten::sum", "aten::div"]

    def test_a_dead_result_is_left_out(self):
        x = torch.ones(64, device=DUT)
        torch.neuron.synchronize()
        with torch.neuron.explain() as why:
            x.exp()
            (x + 1).tolist()
        assert why["left_out"] == 1

    def test_a_miss_names_the_field_that_differed(self):
        x = torch.ones(5000, device=DUT)
        torch.neuron.synchronize()
        ((x - 0.25).cos() + 0.5).tolist()
        half = x.bfloat16()
        torch.neuron.synchronize()
        with torch.neuron.explain() as why:
            ((x - 0.5).cos() + 0.25).tolist()  # other numbers: a hit
        assert not [m for m in why["cache_misses"] if m["cache"] == "kernels"]
        assert why["compiles"]["kernel_hits"] == 1
        with torch.neuron.explain() as why:
            ((half - 0.25).cos() + 0.5).tolist()
        misses = [m["difference"] for m in why["cache_misses"] if m["cache"] == "kernels"]
        assert len(misses) == 1
        assert "nearest has" in misses[0]

    def test_host_ops_have_a_cost_and_a_line(self):
        x = torch.randn(500, device=DUT)
        torch.neuron.synchronize()
        with torch.neuron.explain() as why:
            torch.kthvalue(x, 7).values.tolist()
        (call,) = [call for call in why["calls"] if call["op"] == "aten::kthvalue"]
        assert call["fallback"] == 1
        assert call["us"] > 0
        assert HERE in call["line"]

    def test_split_calls_say_in_how_many_blocks(self):
        image, weight = torch.randn(8, 8, 64, 64), torch.randn(16, 8, 3, 3)
        image, weight = image.to(DUT), weight.to(DUT)
        with torch.neuron.explain() as why:
            F.conv2d(image, weight).sum().item()
        blocks = [c["blocks"] for c in why["calls"] if "convolution" in c["op"]]
        assert blocks and max(blocks) > 1

    def test_an_op_that_ran_at_once_is_a_call(self):
        x = torch.arange(6.0, device=DUT)
        with torch.neuron.explain() as why:
            x.nonzero()
        (call,) = [call for call in why["calls"] if call["op"] == "aten::nonzero"]
        assert call["at_once"] == 1

    def test_text_and_json_have_it_all(self):
        x = torch.ones(4096, device=DUT)
        with torch.neuron.explain() as why:
            chain(x).tolist()
            torch.kthvalue(x, 7).values.tolist()
        text = str(why)
        for part in (
            "value-read",
            "kernels of several ops",
            "not fused",
            "look-ups in caches",
            "compiled",
            "ops that ran on the host",
            "aten::kthvalue",
        ):
            assert part in text
        assert json.loads(why.json()) == dict(why)
        assert json.loads(torch.neuron.window_report().json())["windows"] > 0

    def test_without_a_context_it_counts_since_the_start(self):
        torch.ones(4, device=DUT).tolist()
        why = torch.neuron.explain()
        assert why["report"]["windows"] > 0
        assert "windows" not in why
        assert "look-ups in caches" in str(why)

    def test_nothing_is_collected_outside(self):
        with torch.neuron.explain() as why:
            pass
        torch.ones(4, device=DUT).tolist()
        assert why["report"]["windows"] == 0
        assert why["windows"] == []

    def test_an_error_is_left_to_the_next_synchronisation(self):
        table = torch.zeros(3, 2, device=DUT)
        with torch.neuron.explain():
            table[torch.tensor([7], device=DUT)]
        with pytest.raises(IndexError):
            torch.neuron.synchronize()


COMPILES = """
import json, time, torch
x = torch.randn(1 << 16, device="neuron")
def settle():
    while torch.neuron.compile_report()["waiting"]:
        time.sleep(0.001)
def run():
    for _ in range(6):
        (torch.tanh(x * 0.5) + x.exp()).sum().item()
    settle()
with torch.neuron.explain() as why:
    run()
print(json.dumps(why))
"""


class TestCompiles:
    def test_a_compile_has_time_tier_and_origin(self, tmp_path):
        env = {"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path / "kernels")}
        first = json.loads(run_adaptive(COMPILES, **env).stdout)
        (compiled,) = first["compiled"]
        assert compiled["ms"] > 0
        assert compiled["from"] == "compiler"
        assert compiled["tier"].startswith("compiled")
        misses = [m["difference"] for m in first["cache_misses"] if m["cache"] == "disk"]
        assert misses == ["the cache is empty"]
        again = json.loads(run_adaptive(COMPILES, **env).stdout)
        assert [event["from"] for event in again["compiled"]] == ["disk"]
        other = COMPILES.replace("x.exp()", "x.cos()")
        changed = json.loads(run_adaptive(other, **env).stdout)
        (miss,) = [
            m["difference"] for m in changed["cache_misses"] if m["cache"] == "disk"
        ]
        assert "Cos.f32" in miss and "nearest has" in miss


class TestCapture:
    def test_a_window_shows_ops_plan_llvm_ir_and_assembly(self):
        x = torch.ones(4096, device=DUT)
        with torch.neuron.capture_windows() as windows:
            chain(x).tolist()
        (window,) = windows
        assert window.reason == "value-read"
        assert HERE in window.line
        ops = window.ir.splitlines()
        assert [op.split()[0] for op in ops] == [
            "aten::mul",
            "aten::add",
            "aten::exp",
            "aten::sum",
            "aten::div",
        ]
        assert ops[0].endswith(line_after(chain, 1))
        assert "f32[4096]" in ops[0]
        assert window.plan.startswith("kernel 0: aten::mul, aten::add, aten::exp, fused")
        fused = window.kernels[0]
        assert fused.is_fused and fused.numel == 4096
        assert "Exp.f32" in fused.code
        assert "define void @" in fused.llvm_ir
        assert "fmul <" in fused.llvm_ir
        assert "vmulps" in fused.assembly
        assert not window.kernels[1].is_fused
        assert window.kernels[1].llvm_ir == ""
        assert "; kernel 0: aten::mul" in window.llvm_ir
        assert "# kernel 0: aten::mul" in window.assembly
        assert window.plan in str(window)

    def test_equal_kernels_are_shown_once(self):
        x, y = torch.ones(8000, device=DUT), torch.ones(9000, device=DUT)
        with torch.neuron.capture_windows() as windows:
            a, b = (x + 1).exp(), (y + 1).exp()
            torch.neuron.synchronize()
        assert a is not b
        (window,) = [window for window in windows if window.kernels]
        assert window.llvm_ir.count("define void @") == 1
        assert "; kernel 0, 1: aten::add, aten::exp" in window.llvm_ir

    def test_windows_before_and_after_are_not_in_it(self):
        x = torch.ones(4, device=DUT) + 1
        with torch.neuron.capture_windows() as windows:
            pass
        (x * 2).tolist()
        assert windows == []

    def test_each_stream_says_its_number(self):
        stream = torch.neuron.Stream()
        with torch.neuron.capture_windows() as windows, torch.neuron.stream(stream):
            torch.ones(4, device=DUT).exp()
        assert windows[0].stream != 0


def test_the_example_runs():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "examples", "explain.py")) as source:
        done = run_script(source.read(), env={"TORCH_NEURONX_NEFF_DISABLE_CACHE": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    for part in ("kernels of several ops", "[sync] Python waits", "the same bits in"):
        assert part in done.stdout
