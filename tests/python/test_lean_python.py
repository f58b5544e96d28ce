"""Hooks and Python nodes in the lean backward loop."""

import gc
import traceback
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from device_under_test import DUT, inp, only_neuron
from lean_autograd import expect, leaf, lean_autograd, same, to_bits

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]


def test_tensor_hooks_change_the_gradient():
    def case() -> list:
        x = leaf(3)
        y = x * 2
        y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: g + 1)
        y.sum().backward()
        return [x.grad]

    same(case, passes=1)


def test_all_hooks_run_in_the_same_order():
    def case() -> list:
        seen: list = []

        def note(name: str) -> Callable:
            return lambda *args: seen.append(name)

        a, b, c = (leaf(2, seed=i) for i in range(3))
        for name, x in zip("abc", (a, b, c), strict=True):
            x.register_hook(note(name))
            x.register_post_accumulate_grad_hook(note(name + " accumulated"))
        y = a * b + c
        z = (y.sin() * c).sum()
        y.register_hook(note("y"))
        y.retain_grad()
        y.register_hook(note("y again"))
        z.register_hook(note("z"))
        y.grad_fn.register_hook(note("y's node"))
        z.backward()
        return [seen, y.grad]

    same(case, passes=1)


def test_retained_gradients():
    def case() -> list:
        x = leaf(3)
        y = x * 2
        z = y.sin()
        y.retain_grad()
        z.retain_grad()
        z.sum().backward()
        return [x.grad, y.grad, z.grad]

    same(case, passes=1)


def test_post_accumulate_hooks_may_step_and_free():
    def case() -> list:
        x = leaf(3)
        steps = []

        def step(parameter: torch.Tensor) -> None:
            with torch.no_grad():
                parameter -= 0.1 * parameter.grad
            steps.append(parameter.grad)
            parameter.grad = None

        x.register_post_accumulate_grad_hook(step)
        for _ in range(2):
            (x * x).sum().backward()
        return [x, steps, x.grad]

    same(case, passes=2)


def test_module_backward_hooks():
    def case() -> list:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to(DUT)
        seen: list = []
        net[0].register_full_backward_hook(lambda m, gi, go: seen.append(go[0]))
        net[1].register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
        net(inp(2, 3).to(DUT)).sum().backward()
        return [seen, net[0].weight.grad]

    same(case)


def test_node_prehooks_send_the_graph_to_the_original_engine():
    x = leaf(3)
    y = x.sin()
    names = []
    y.grad_fn.register_prehook(
        lambda g: names.append(torch._C._current_autograd_node().name())
    )
    with expect(0, node_pre_hook=1):
        y.sum().backward()
    assert names == ["SinBackward0"]


@pytest.mark.parametrize("kind", ["all", "any"])
def test_multi_grad_hooks(kind: str):
    def case() -> list:
        a, b, unused = leaf(2), leaf(2, seed=1), leaf(2, seed=2)
        seen: list = []

        def hook(grads: object) -> None:
            seen.append(
                [None if g is None else g.tolist() for g in grads]
                if isinstance(grads, list | tuple)
                else grads.tolist()
            )

        torch.autograd.graph.register_multi_grad_hook((a, b, unused), hook, mode=kind)
        (a * b).sum().backward()
        (a * 2).sum().backward()
        return seen

    same(case, passes=2)


@pytest.mark.parametrize("num_roots", [1, 2])
def test_a_hook_may_ask_which_nodes_run(num_roots: int):
    def case() -> list:
        x, unused = leaf(2), leaf(2, seed=1) * 3
        y = x * 2
        loss = y.sum()
        accumulate = y.grad_fn.next_functions[0][0]
        nodes = [loss.grad_fn, y.grad_fn, accumulate, unused.grad_fn]
        seen: list = []

        def ask(grad: torch.Tensor) -> None:
            seen.extend(torch._C._will_engine_execute_node(node) for node in nodes)

        y.register_hook(ask)
        torch.autograd.backward([loss, y.sum()][:num_roots])
        return seen

    same(case, passes=1)


def test_hooks_with_inputs_go_to_the_original_engine():
    def case() -> list:
        x, w = leaf(3), leaf(3, seed=1)
        y = x * w
        y.register_hook(lambda g: g * 3)
        return list(torch.autograd.grad(y.sum(), [x, y]))

    with lean_autograd(False):
        wanted = to_bits(case())
    with expect(0, python_with_inputs=1):
        assert to_bits(case()) == wanted


def test_a_hook_that_leaves_grad_mode_on_changes_nothing_else():
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: torch.set_grad_enabled(True) and None)
    y.square().sum().backward()
    assert not x.grad.requires_grad
    torch.set_grad_enabled(True)


def test_a_hook_may_register_another_hook():
    x = leaf(3)
    y = x * 2
    z = y.sin()
    z.register_hook(lambda g: y.register_hook(lambda h: h * 0) and None)
    z.sum().backward()
    assert x.grad.tolist() == [0.0] * 3


def test_callbacks_run_at_the_end_of_the_pass():
    x = leaf(3)
    seen = []

    def note(grad: torch.Tensor) -> None:
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: seen.append(x.grad is not None))

    y = x * 2
    y.register_hook(note)
    with expect(1):
        y.sum().backward()
    assert seen == [True]


def test_a_hook_knows_the_pass():
    seen = []
    x = leaf(3)
    x.register_hook(lambda g: seen.append(torch._C._current_graph_task_id()))
    for _ in range(2):
        (x * 2).sum().backward()
    assert -1 not in seen
    assert len(set(seen)) == 2
    assert torch._C._current_graph_task_id() == -1


class Cube(torch.autograd.Function):
    """A node in Python, differentiable again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class Failing(torch.autograd.Function):
    """A node whose backward raises."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise ZeroDivisionError("from a node")


def test_custom_function_in_the_middle():
    def case() -> list:
        x = leaf(3)
        (Cube.apply(x.sin()) * x).sum().backward()
        return [x.grad]

    same(case, passes=1)


def test_custom_function_twice_differentiated():
    def case() -> list:
        x = leaf(3)
        g = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)[0]
        g.sum().backward()
        return [g, x.grad]

    same(case)


def test_custom_function_with_inputs_goes_to_the_original_engine():
    x = leaf(3)
    with expect(0, python_with_inputs=1):
        torch.autograd.grad(Cube.apply(x).sum(), x)


def test_exception_of_a_node_keeps_type_and_traceback():
    x = leaf(3)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="from a node") as raised:
            (Failing.apply(x.sin()) * 2).sum().backward()
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert frames[-1].line == 'raise ZeroDivisionError("from a node")'
    with expect(1):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_exception_of_a_hook():
    x = leaf(3)
    handle = x.register_hook(lambda g: [].pop())
    with pytest.raises(IndexError):
        (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_a_failed_pass_frees_what_was_on_its_way():
    x = leaf(1000)
    gc.collect()
    before = torch.neuron.memory_allocated()
    y = x.sin()
    with pytest.raises(ZeroDivisionError):
        (Failing.apply(y) + y.cos() * x).sum().backward()
    del y
    x.grad = None
    gc.collect()
    torch.neuron.synchronize()
    assert torch.neuron.memory_allocated() <= before


def test_backward_inside_backward():
    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                (x * x).sum().backward()
            return grad * x.grad

    def case() -> list:
        x = leaf(3)
        (Nested.apply(x.sin()) * x.cos()).sum().backward()
        return [x.grad]

    same(case, passes=2)


def test_deeply_nested_backward():
    """Deeper than the engine nests on one thread."""

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth:
                with torch.enable_grad():
                    x = torch.ones(2, device=DUT, requires_grad=True)
                    Nested.apply(x, ctx.depth - 1).sum().backward()
                return grad * x.grad, None
            return grad * 2, None

    x = leaf(2)
    with expect(81):
        Nested.apply(x, 80).sum().backward()
    assert x.grad.tolist() == [2.0] * 2


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint(use_reentrant: bool):
    def case() -> list:
        torch.manual_seed(0)
        blocks = [
            nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.3)) for _ in "ab"
        ]
        net = nn.ModuleList(blocks).to(DUT)
        x = leaf(3, 4)
        y = x
        for block in net:
            y = checkpoint(block, y, use_reentrant=use_reentrant)
        y.square().sum().backward()
        return [x.grad] + [p.grad for p in net.parameters()]

    same(case)


def test_reentrant_checkpoint_refuses_grad():
    x = leaf(3)
    y = checkpoint(torch.sin, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="incompatible"):
        torch.autograd.grad(y.sum(), x)


def test_checkpoint_recomputes_once_a_pass():
    calls = []

    def block(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.sin().exp().cos()

    x = leaf(3)
    with expect(1):
        checkpoint(block, x, use_reentrant=False).sum().backward()
    assert len(calls) == 2


def test_saved_tensor_hooks():
    def case() -> list:
        unpacked = []

        def unpack(number: int) -> torch.Tensor:
            unpacked.append(number)
            return store[number].to(DUT)

        def pack(x: torch.Tensor) -> int:
            store.append(x.cpu())
            return len(store) - 1

        store: list = []
        x = leaf(3)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (x.sin() * x.exp()).sum()
        y.backward()
        return [x.grad, unpacked]

    same(case, passes=1)


def test_save_on_cpu():
    def case() -> list:
        x = leaf(3)
        with torch.autograd.graph.save_on_cpu():
            y = (x.sin() * x.exp()).sum()
        y.backward()
        return [x.grad]

    same(case, passes=1)
