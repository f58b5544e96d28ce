"""The lean backward loop gives the bits and the errors of PyTorch's engine."""

import contextlib
import random
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from device_under_test import DUT, inp, only_neuron
from lean_autograd import both_messages, expect, leaf, lean_autograd, same

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]

#: Random training programs that are compared bit for bit.
SEEDS = range(60)


class Training:
    """A random graph over shared leaves, grown by the same draws for the same seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.leaves = [leaf(3, 4, seed=seed + i) for i in range(3)] + [leaf(4, seed=seed)]
        self.leaves.append(leaf(1, 4, seed=seed + 9))
        self.values = list(self.leaves)

    def pick(self) -> torch.Tensor:
        return self.dice.choice(self.values[-6:] + self.leaves)

    def grow(self) -> torch.Tensor:
        a, b = self.pick(), self.pick()
        steps: list[Callable[[], torch.Tensor]] = [
            lambda: a + b,
            lambda: a * b.tanh(),
            lambda: (a - b) * 0.5,
            lambda: torch.sigmoid(a),
            lambda: a.reshape(-1)[: a.numel() // 2 + 1].cos().sum() + b * 0.1,
            lambda: a.expand(3, 4).t() @ b.expand(3, 4) * 0.1,
            lambda: F.softmax(a, -1) + b.mean(),
            lambda: torch.cat([a.reshape(-1), b.reshape(-1)])[:4],
            lambda: self.write_into(a, b),
            lambda: self.without_grad(a) * b,
            lambda: torch.where(a > 0, a, a * 0.1),
            lambda: F.layer_norm(a, (a.shape[-1],)),
        ]
        for _ in range(8):
            value = None
            with contextlib.suppress(RuntimeError):  # shapes that do not fit
                value = self.dice.choice(steps)()
            if value is not None:
                return value
        return a * 2

    def write_into(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        copy = a * 1.5
        copy.select(-1, 0).mul_(0.5)
        copy.add_(b.mean())
        return copy

    def without_grad(self, a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return a.abs() + 1

    def run(self) -> list:
        for _ in range(self.dice.randint(3, 25)):
            self.values.append(self.grow())
        roots = [v.sin().mean() for v in self.values[-3:] if v.requires_grad]
        kind = self.dice.randrange(5)
        result: list = []
        if kind == 0:
            torch.autograd.backward(roots)
        elif kind == 1:
            sum(roots).backward(retain_graph=True)
            sum(roots).backward()
        elif kind == 2:
            first = torch.autograd.grad(
                roots, self.leaves, create_graph=True, allow_unused=True
            )
            result += [g for g in first if g is not None]
            sum(g.square().sum() for g in first if g is not None).backward()
        elif kind == 3:
            torch.autograd.backward(roots, inputs=self.leaves[:2])
        else:
            grads = [torch.full_like(r, 0.5) for r in roots]
            torch.autograd.backward(roots, grads)
            with torch.no_grad():
                for x in self.leaves:
                    x -= 0.1 * (x.grad if x.grad is not None else x)
            sum(x.square().sum() for x in self.leaves).backward()
        return result + [x.grad for x in self.leaves] + self.values[len(self.leaves) :]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_training_programs_give_the_same_bits(seed: int):
    same(lambda: Training(seed).run())


def test_a_network_trains_to_the_same_bits():
    def case() -> list:
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4))
        net.to(DUT)
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        for step in range(4):
            optimizer.zero_grad()
            x, y = inp(5, 6, seed=step).to(DUT), torch.arange(5, device=DUT) % 4
            F.cross_entropy(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        return list(net.parameters()) + [p.grad for p in net.parameters()]

    same(case, passes=4)


def test_gradient_of_an_intermediate_and_of_a_leaf():
    def case() -> list:
        x = leaf(3)
        y = x * 2
        z = (y * y).sum()
        return list(torch.autograd.grad(z, [y, x]))

    same(case, passes=1)


def test_gradient_of_a_root_is_what_was_given():
    def case() -> list:
        y = leaf(3) * 2
        return list(torch.autograd.grad(y, [y], torch.ones_like(y)))

    same(case, passes=1)


def test_one_input_named_twice():
    def case() -> list:
        x = leaf(3)
        return list(torch.autograd.grad((x * x).sum(), [x, x]))

    same(case, passes=1)


def test_unused_input_is_none_or_refused():
    x, unused = leaf(3), leaf(3)
    assert torch.autograd.grad(x.sum(), [unused], allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(x.sum(), [unused])


def test_backward_with_inputs_leaves_other_leaves_alone():
    x, w = leaf(3), leaf(3, seed=1)
    with expect(1):
        (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    assert torch.equal(w.grad, x.detach())


def test_a_node_computes_only_what_is_asked_for():
    """The gradient of the other factor is not recorded."""
    x, w = leaf(3), leaf(3, seed=1)

    def ops() -> int:
        loss = (x * w).sum()
        torch.neuron.synchronize()
        torch.neuron.reset_window_report()
        torch.autograd.grad(loss, [x])
        torch.neuron.synchronize()
        return torch.neuron.window_report()["ops"]

    with lean_autograd(False):
        wanted = ops()
    with lean_autograd(True):
        assert ops() == wanted


def test_backward_of_a_leaf():
    x = leaf(3)
    with expect(1):
        x.backward(torch.ones_like(x))
    assert x.grad.tolist() == [1.0] * 3


def test_the_given_gradient_is_not_stolen():
    x, grad = leaf(3), torch.ones(3, device=DUT)
    x.backward(grad)
    x.grad.mul_(5)
    assert grad.tolist() == [1.0] * 3


def test_a_gradient_that_flows_twice_is_not_changed_in_place():
    x, y = leaf(3), leaf(3, seed=1)
    (x + y).sum().backward()
    x.grad.mul_(5)
    assert y.grad.tolist() == [1.0] * 3


def test_one_root_inside_the_graph_of_another():
    def case() -> list:
        x = leaf(3)
        y = x.sin()
        z = y.cos()
        torch.autograd.backward([z.sum(), y.sum(), y.sum()])
        return [x.grad]

    same(case, passes=1)


def test_a_gradient_of_another_type_is_converted():
    def case() -> list:
        x = leaf(3)
        y = x.double() * 2
        (y.float() + x).backward(torch.ones(3, device=DUT))
        return [x.grad]

    same(case, passes=1)


@pytest.mark.parametrize("grad", [torch.ones(2), torch.ones(3, 3)])
def test_a_gradient_of_a_wrong_shape_is_refused_in_the_same_words(grad: torch.Tensor):
    def message() -> str:
        with pytest.raises(RuntimeError) as raised:
            torch.autograd.backward((leaf(3) * 2,), (grad.to(DUT),))
        return str(raised.value)

    with lean_autograd(False):
        wanted = message()
    with lean_autograd(True):
        assert message() == wanted


def test_create_graph_warns_once_in_backward_only():
    def caught(call: Callable[[torch.Tensor], object]) -> int:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(leaf(3).square().sum())
        return sum("create_graph=True" in str(w.message) for w in seen)

    torch.set_warn_always(True)
    try:
        x = leaf(3)
        with expect(2):
            assert caught(lambda loss: loss.backward(create_graph=True)) == 1
            loss = x.square().sum()
            assert caught(lambda _: torch.autograd.grad(loss, x, create_graph=True)) == 0
    finally:
        torch.set_warn_always(False)


def test_grad_mode_is_as_before():
    for create_graph in (False, True):
        for enabled in (False, True):
            loss = leaf(3).square().sum()
            with torch.set_grad_enabled(enabled):
                loss.backward(create_graph=create_graph)
                assert torch.is_grad_enabled() == enabled


def test_double_and_triple_derivative():
    def case() -> list:
        x = leaf(4)
        g1 = torch.autograd.grad((x**4).sum(), x, create_graph=True)[0]
        g2 = torch.autograd.grad(g1.sum(), x, create_graph=True)[0]
        g2.sum().backward()
        return [g1, g2, x.grad]

    same(case, passes=3)


def test_second_backward_is_refused_in_the_same_words():
    def case() -> None:
        loss = leaf(3).square().sum()
        loss.backward()
        loss.backward()

    wanted, got = both_messages(case)
    assert got == wanted
    assert "backward through the graph a second time" in got


def test_overwritten_saved_tensor_is_refused_in_the_same_words():
    def case() -> None:
        y = leaf(3).exp()
        loss = y.sum()
        y.add_(1)
        loss.backward()

    wanted, got = both_messages(case)
    assert got == wanted
    assert "modified by an inplace operation" in got


def test_wrong_gradient_of_a_custom_function_is_refused_in_the_same_words():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(7, device=DUT)

    wanted, got = both_messages(lambda: Wrong.apply(leaf(3).sin()).sum().backward())
    assert got == wanted
    assert "WrongBackward returned an invalid gradient" in got


def test_no_grad_tensor_is_refused():
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones((), device=DUT).backward()


def test_anomaly_mode_shows_the_forward_trace():
    x = torch.zeros(3, device=DUT, requires_grad=True)
    with expect(0, anomaly_mode=1), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
            (x.sqrt() * 0).sum().backward()
    assert any("x.sqrt()" in str(w.message) for w in seen)
