"""Switches to bisect with, and the comparison of plain with adaptive eager."""

import pytest
import torch
import torch.nn.functional as F

from device_under_test import DUT, line_after, only_neuron, run_script

pytestmark = only_neuron


@pytest.fixture(autouse=True)
def adaptive():
    with torch.neuron.adaptive_eager():
        yield


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
        with torch.neuron.explain() as why:
            y = (x + 1) * 2 - 3
            y.mul_(1.5)
            host = y.cpu()
        assert [c["count"] for c in why["calls"] if c["op"] == "aten::mul"] == [1]
        assert [c["count"] for c in why["calls"] if c["op"] == "aten::mul_"] == [1]
        assert all("mul" not in group["ops"] for group in why["groups"])
        assert torch.equal(host, ((x.cpu() + 1) * 2 - 3) * 1.5)
        torch.neuron.set_denied_ops()
        with torch.neuron.explain() as why:
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
        done = run_script(source, env=env)
        assert done.stdout == "5 4 ['aten::add', 'aten::exp']\n", done.stderr[-2000:]


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
