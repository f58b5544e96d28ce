"""Answers to "why": reports, the live log, captured windows, switches, comparison."""

import json
import logging
import os
import time
import warnings

import pytest
import torch
import torch.nn.functional as F

from device_under_test import DUT, only_neuron, run_script

pytestmark = only_neuron

HERE = os.path.basename(__file__)
#: A compile takes milliseconds; only a hang takes this long.
HANG_S = 60


@pytest.fixture(autouse=True)
def adaptive():
    with torch.neuron.adaptive_eager():
        yield
    torch.neuron.set_log()


def line_after(function, offset: int) -> str:
    """ "file:line" of a line of this file, counted from the head of `function`."""
    return f"{HERE}:{function.__code__.co_firstlineno + offset}"


def chain(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2 + 1).exp()
    total = y.sum()
    return y / total


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
        with torch_explain() as why:
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
        with torch_explain() as why:
            x.exp()
            (x + 1).tolist()
        assert why["left_out"] == 1

    def test_a_miss_names_the_field_that_differed(self):
        x = torch.ones(5000, device=DUT)
        torch.neuron.synchronize()
        ((x - 0.25).cos() + 0.5).tolist()
        half = x.bfloat16()
        torch.neuron.synchronize()
        with torch_explain() as why:
            ((x - 0.5).cos() + 0.25).tolist()  # other numbers: a hit
        assert not [m for m in why["cache_misses"] if m["cache"] == "kernels"]
        assert why["compiles"]["kernel_hits"] == 1
        with torch_explain() as why:
            ((half - 0.25).cos() + 0.5).tolist()
        misses = [m["difference"] for m in why["cache_misses"] if m["cache"] == "kernels"]
        assert len(misses) == 1
        assert "nearest has" in misses[0]

    def test_host_ops_have_a_cost_and_a_line(self):
        x = torch.randn(500, device=DUT)
        torch.neuron.synchronize()
        with torch_explain() as why:
            torch.kthvalue(x, 7).values.tolist()
        (call,) = [call for call in why["calls"] if call["op"] == "aten::kthvalue"]
        assert call["fallback"] == 1
        assert call["us"] > 0
        assert HERE in call["line"]

    def test_split_calls_say_in_how_many_blocks(self):
        image, weight = torch.randn(8, 8, 64, 64), torch.randn(16, 8, 3, 3)
        image, weight = image.to(DUT), weight.to(DUT)
        with torch_explain() as why:
            F.conv2d(image, weight).sum().item()
        blocks = [c["blocks"] for c in why["calls"] if "convolution" in c["op"]]
        assert blocks and max(blocks) > 1

    def test_an_op_that_ran_at_once_is_a_call(self):
        x = torch.arange(6.0, device=DUT)
        with torch_explain() as why:
            x.nonzero()
        (call,) = [call for call in why["calls"] if call["op"] == "aten::nonzero"]
        assert call["at_once"] == 1

    def test_text_and_json_have_it_all(self):
        x = torch.ones(4096, device=DUT)
        with torch_explain() as why:
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
        with torch_explain() as why:
            pass
        torch.ones(4, device=DUT).tolist()
        assert why["report"]["windows"] == 0
        assert why["windows"] == []

    def test_an_error_is_left_to_the_next_synchronisation(self):
        table = torch.zeros(3, 2, device=DUT)
        with torch_explain():
            table[torch.tensor([7], device=DUT)]
        with pytest.raises(IndexError):
            torch.neuron.synchronize()


def torch_explain():
    import torch_neuronx

    return torch_neuronx.explain()


COMPILES = """
import json, time, torch
d = os.environ["DUT"] if False else "neuron"
x = torch.randn(1 << 16, device=d)
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


def run_adaptive(source: str, **env: str):
    done = run_script(
        "import os\n" + source,
        env={"NEURON_ADAPTIVE_EAGER": "1", "NEURON_COMPILE_AFTER": "1", **env},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


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


class TestLog:
    def test_topics_come_through_logging(self, caplog):
        x = torch.ones(4096, device=DUT)
        torch.neuron.synchronize()
        torch.neuron.set_log("windows,fusion,cache,fallback")
        chain(x).tolist()
        torch.kthvalue(x, 7).values.tolist()
        torch.neuron.flush_log()
        by_logger = {}
        for record in caplog.records:
            by_logger.setdefault(record.name, []).append(record.getMessage())
        windows = "\n".join(by_logger["torch_neuronx.windows"])
        assert "by value-read" in windows and HERE in windows
        fusion = "\n".join(by_logger["torch_neuronx.fusion"])
        assert "aten::sum is not pointwise" in fusion
        assert "one kernel of 3 ops" in fusion
        assert "aten::kthvalue" in "\n".join(by_logger["torch_neuronx.fallback"])

    def test_entries_come_live_without_a_flush(self, caplog):
        torch.neuron.set_log("windows")
        torch.ones(4, device=DUT).add(1).tolist()
        end = time.monotonic() + HANG_S
        while not caplog.records and time.monotonic() < end:
            time.sleep(0.001)
        assert "by value-read" in caplog.records[0].getMessage()

    def test_only_what_was_asked_for_is_logged(self, caplog):
        torch.neuron.set_log(["cache"])
        torch.ones(4, device=DUT).add(1).tolist()
        torch.neuron.flush_log()
        assert {record.name for record in caplog.records} <= {"torch_neuronx.cache"}
        torch.neuron.set_log()
        caplog.clear()
        torch.ones(4, device=DUT).add(1).tolist()
        torch.neuron.flush_log()
        assert caplog.records == []
        assert torch.neuron.get_log() == ()

    def test_what_is_frequent_is_for_debug(self, caplog):
        torch.neuron.set_log("cache")
        logging.getLogger("torch_neuronx").setLevel(logging.DEBUG)
        try:
            for _ in range(2):
                torch.ones(9, 9, device=DUT).sort().values.tolist()
            torch.neuron.flush_log()
        finally:
            logging.getLogger("torch_neuronx").setLevel(logging.INFO)
        levels = {record.levelno for record in caplog.records if "hit" in record.message}
        assert levels == {logging.DEBUG}

    def test_an_unknown_topic_is_refused(self):
        with pytest.raises(ValueError, match="expected all or one of windows, fusion"):
            torch.neuron.set_log("window")

    def test_the_environment_turns_it_on_and_stderr_shows_it(self):
        source = "import torch\ntorch.ones(3, device='neuron').add(1).tolist()\n"
        done = run_adaptive(source, NEURON_LOG="windows,fusion")
        assert "[torch_neuronx.windows] window 1 of stream 0" in done.stderr
        assert "torch_neuronx.fusion" in done.stderr
        assert run_adaptive(source).stderr == ""

    def test_a_bad_topic_in_the_environment_is_a_warning(self):
        done = run_adaptive("import torch", NEURON_LOG="everything")
        assert "no such topic: got 'everything'" in done.stderr

    def test_a_forked_child_logs_too_and_ends(self):
        source = """
import os, sys, torch
pid = os.fork()
torch.ones(3, device="neuron").add(pid == 0).tolist()
torch.neuron.flush_log()
if pid:
    sys.exit(os.waitpid(pid, 0)[1])
"""
        done = run_adaptive(source, NEURON_LOG="windows")
        assert done.stderr.count("by value-read") == 2

    def test_threads_that_log_while_others_record_do_no_harm(self):
        source = """
import threading, torch
torch.neuron.set_log("all")
import logging; logging.getLogger("torch_neuronx").setLevel(logging.DEBUG)
def work():
    x = torch.ones(4096, device="neuron")
    for i in range(30):
        x = (x * 0.5 + 1).exp().clamp(max=2)
        if i % 7 == 0: x.sum().item()
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
torch.neuron.set_log("windows")
x = torch.ones(4, device="neuron") + 1
"""
        done = run_adaptive(source)
        assert "[torch_neuronx.windows]" in done.stderr
        assert "Traceback" not in done.stderr


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


class TestSyncDebugMode:
    @pytest.fixture(autouse=True)
    def back(self):
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
    def test_a_wait_is_an_error_or_a_warning_with_its_line(self, wait):
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

    def test_what_does_not_wait_is_not_reported(self):
        with torch.neuron.sync_debug_mode("error"):
            x = torch.ones(4, device=DUT) * 2
            y = torch.tensor([1.0, 2.0], device=DUT)
            z = torch.arange(3).to(DUT)
            x.add_(1).requires_grad_().sum().backward()
            torch.neuron.synchronize()
        assert y.tolist() == [1.0, 2.0]
        assert z.tolist() == [0, 1, 2]

    def test_the_refused_wait_leaves_everything_as_it_was(self):
        x = torch.ones(4, device=DUT) + 1
        with (
            torch.neuron.sync_debug_mode(2),
            pytest.raises(RuntimeError, match="value-read"),
        ):
            x.tolist()
        assert x.tolist() == [2.0] * 4

    def test_modes_have_names_and_numbers(self):
        torch.neuron.set_sync_debug_mode("warn")
        assert torch.neuron.get_sync_debug_mode() == 1
        torch.neuron.set_sync_debug_mode(2)
        assert torch.neuron.get_sync_debug_mode() == 2
        torch.neuron.sync_debug_mode("default")
        assert torch.neuron.get_sync_debug_mode() == 0
        with pytest.raises(ValueError, match="no such mode: got 'loud'"):
            torch.neuron.set_sync_debug_mode("loud")

    def test_the_environment_sets_the_mode(self):
        source = "import torch\nprint(torch.neuron.get_sync_debug_mode())\n"
        done = run_adaptive(source, NEURON_SYNC_DEBUG_MODE="2")
        assert done.stdout == "2\n"


class TestBisect:
    @pytest.fixture(autouse=True)
    def back(self):
        yield
        torch.neuron.set_flush_every(0)
        torch.neuron.set_max_fused_ops(0)
        torch.neuron.set_denied_ops()

    def test_windows_end_after_every_nth_op(self):
        x = torch.ones(8, device=DUT)
        torch.neuron.set_flush_every(3)
        assert torch.neuron.get_flush_every() == 3
        with torch.neuron.capture_windows() as windows:
            for _ in range(9):
                x = x + 1
        assert [len(window.ir.splitlines()) for window in windows] == [3, 3, 3]
        torch.neuron.set_flush_every(0)
        with torch.neuron.capture_windows() as windows:
            for _ in range(9):
                x = x + 1
        assert len(windows) == 1
        assert x.tolist() == [19.0] * 8

    def test_kernels_hold_no_more_ops_than_allowed(self):
        x = torch.ones(8, device=DUT)
        torch.neuron.set_max_fused_ops(2)
        with torch.neuron.capture_windows() as windows:
            y = (x + 1) * 2 - 3
            torch.neuron.synchronize()
        ops = [kernel.ops for kernel in windows[0].kernels]
        assert ops == ["aten::add, aten::mul", "aten::sub"]
        torch.neuron.set_max_fused_ops(1)
        with torch.neuron.capture_windows() as windows:
            z = (x + 1) * 2 - 3
            torch.neuron.synchronize()
        assert len(windows[0].kernels) == 3
        assert torch.equal(y, z)

    def test_a_denied_op_is_run_by_aten_and_not_fused(self):
        x = torch.rand(100, device=DUT)
        torch.neuron.set_denied_ops("mul")
        assert torch.neuron.get_denied_ops() == ["aten::mul"]
        with torch_explain() as why:
            y = (x + 1) * 2 - 3
            y.mul_(1.5)
            host = y.cpu()
        assert [c["count"] for c in why["calls"] if c["op"] == "aten::mul"] == [1]
        assert [c["count"] for c in why["calls"] if c["op"] == "aten::mul_"] == [1]
        assert all("mul" not in group["ops"] for group in why["groups"])
        assert torch.equal(host, ((x.cpu() + 1) * 2 - 3) * 1.5)
        torch.neuron.set_denied_ops()
        with torch_explain() as why:
            ((x + 1) * 2 - 3).tolist()
        assert why["groups"][0]["ops"] == "aten::add, aten::mul, aten::sub"
        assert not [c for c in why["calls"] if c["op"] == "aten::mul"]

    @pytest.mark.parametrize("op", ["mul", "sum", "mm", "addmm", "silu", "_softmax"])
    def test_denied_ops_keep_their_gradients(self, op: str):
        def run() -> list[torch.Tensor]:
            w = torch.linspace(-1, 1, 20, device=DUT).reshape(4, 5).requires_grad_()
            y = F.silu(w @ w.t() * 2).softmax(-1)
            F.linear(y, y, y[0]).sum().backward()
            return [y.detach().cpu(), w.grad.cpu()]

        expected = run()
        torch.neuron.set_denied_ops([op])
        for got, want in zip(run(), expected, strict=True):
            torch.testing.assert_close(got, want)
        with torch.no_grad():
            x = torch.ones(3, 3, device=DUT)
            assert (x * 2).sum().item() == 18.0

    def test_an_op_without_a_native_kernel_is_refused(self):
        with pytest.raises(ValueError, match="got aten::kthvalue"):
            torch.neuron.set_denied_ops("kthvalue")
        assert torch.neuron.get_denied_ops() == []

    def test_limits_must_not_be_negative(self):
        with pytest.raises(ValueError, match="set_flush_every"):
            torch.neuron.set_flush_every(-1)

    def test_the_environment_sets_all_three(self):
        source = (
            "import torch\nprint(torch.neuron.get_flush_every(), "
            "torch.neuron.get_max_fused_ops(), torch.neuron.get_denied_ops())\n"
        )
        env = {
            "NEURON_FLUSH_EVERY": "5",
            "NEURON_MAX_FUSED_OPS": "4",
            "NEURON_DENY_OPS": "add,aten::exp",
        }
        assert run_adaptive(source, **env).stdout == "5 4 ['aten::add', 'aten::exp']\n"


class TestCompare:
    @pytest.fixture(autouse=True)
    def sound(self):
        yield
        torch.neuron._C._set_fault("none", "")

    def test_the_same_bits_are_the_answer(self):
        def step(x: torch.Tensor) -> torch.Tensor:
            y = F.dropout(torch.randn_like(x) * x, 0.5)
            return y.softmax(-1).log()

        x = torch.rand(16, 16, device=DUT)
        before = torch.neuron.get_rng_state()
        found = torch.neuron.compare(step, x)
        assert found, str(found)
        assert found.num_ops > 3
        assert "the same bits" in str(found)
        assert torch.equal(torch.neuron.get_rng_state(), before)

    def test_a_module_and_its_gradients_are_compared_and_left_alone(self):
        model = torch.nn.Linear(4, 4).to(DUT)
        optimizer_steps = []

        def step(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
            optimizer = torch.optim.AdamW(model.parameters())
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer_steps.append(1)
            return loss

        before = model.weight.detach().clone()
        assert torch.neuron.compare(step, model, torch.rand(8, 4, device=DUT))
        assert len(optimizer_steps) == 4
        assert torch.equal(model.weight, before)
        assert model.weight.grad is None

    def test_a_wrong_kernel_is_found_with_op_element_and_line(self):
        def step(x: torch.Tensor) -> torch.Tensor:
            y = x.exp() + 1
            z = y * x
            return z.sum()

        x = torch.zeros(4, 4, device=DUT)
        x[2, 3] = 1.0
        torch.neuron._C._set_fault("wrong", "aten::mul")
        found = torch.neuron.compare(step, x)
        assert not found
        assert found.difference.op == "aten.mul.Tensor"
        assert found.difference.element == (0, 0)  # 2 * 0 against 2 - 0
        assert (found.difference.plain, found.difference.adaptive) == (0.0, 2.0)
        assert found.difference.line.endswith(line_after(step, 2))
        assert "first difference" in str(found)

    def test_the_element_is_the_first_that_differs(self):
        def step(x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            if torch.neuron.is_adaptive_eager():
                y[2, 1] += 2.0**-20
            else:
                y[2, 1] += 0.0
            return y.neg()

        found = torch.neuron.compare(step, torch.ones(4, 4, device=DUT))
        assert found.difference.element in ((), (2, 1))
        assert not found

    def test_nans_are_equal_and_signed_zeros_are_not(self):
        def step(x: torch.Tensor) -> torch.Tensor:
            return x.log() * 0

        assert torch.neuron.compare(step, torch.tensor([-1.0, 1.0], device=DUT))

        def sign(x: torch.Tensor) -> torch.Tensor:
            return x * (-1.0 if torch.neuron.is_adaptive_eager() else 1.0)

        found = torch.neuron.compare(sign, torch.zeros(2, device=DUT))
        assert not found


def test_the_example_runs():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "examples", "explain.py")) as source:
        done = run_script(source.read(), env={"TORCH_NEURONX_NEFF_DISABLE_CACHE": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    for part in ("kernels of several ops", "[sync] Python waits", "the same bits in"):
        assert part in done.stdout
