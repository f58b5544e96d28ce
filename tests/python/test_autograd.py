"""Gradients: hooks, higher order, checkpoints, custom nodes, anomaly mode."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from device_under_test import DUT, KIND, check, grads, inp, module

pytestmark = pytest.mark.usefixtures("mode")

#: Gradients of short chains in float32, summed in another order than on CPU.
RTOL, ATOL = 1e-4, 1e-5


def leaf(*shape: int, seed: int = 0, device: str = DUT) -> torch.Tensor:
    """A leaf that wants a gradient."""
    return inp(*shape, seed=seed).to(device).requires_grad_()


def net_of(device: str) -> nn.Module:
    """A small network with the same weights on every device."""
    return module(
        lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), device
    )


def test_gradients_agree_with_cpu():
    def case(device):
        net = net_of(device)
        F.cross_entropy(
            net(inp(5, 4).to(device)), torch.arange(5, device=device) % 3
        ).backward()
        return grads(net)

    check(case, rtol=RTOL, atol=ATOL)


def test_gradients_accumulate():
    x = leaf(3)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0] * 3


def test_gradient_lives_on_the_device():
    x = leaf(3)
    x.sum().backward()
    assert x.grad.device.type == KIND


def test_tensor_hook_sees_and_changes_the_gradient():
    x = leaf(3)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    y.sum().backward()
    assert seen == [[1.0] * 3]
    assert x.grad.tolist() == [20.0] * 3


def test_hook_that_prints_changes_nothing():
    def run(print_it: bool) -> torch.Tensor:
        x = leaf(7, 5)
        y = (x.tanh() @ x.mT).softmax(-1)
        if print_it:
            y.register_hook(lambda g: repr(g) and None)
        (y * y).sum().backward()
        return x.grad.cpu()

    assert torch.equal(run(True), run(False))


def test_removed_hook_is_not_called():
    x = leaf(3)
    handle = x.register_hook(lambda g: g * 100)
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_post_accumulate_hook_can_step_and_free():
    x = leaf(3)

    def step(p):
        with torch.no_grad():
            p.sub_(p.grad)
        p.grad = None

    before = x.tolist()
    x.register_post_accumulate_grad_hook(step)
    x.sum().backward()
    assert x.grad is None
    torch.testing.assert_close(x.detach().cpu(), torch.tensor(before) - 1)


def test_node_hooks_run_before_and_after():
    order = []
    y = leaf(3) * 2
    y.grad_fn.register_prehook(lambda grads: order.append("before"))
    y.grad_fn.register_hook(lambda inputs, outputs: order.append("after"))
    y.sum().backward()
    assert order == ["before", "after"]


def test_module_backward_hook_sees_gradients():
    net = net_of(DUT)
    seen = []
    net[1].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].shape))
    net(inp(5, 4).to(DUT)).sum().backward()
    assert seen == [(5, 8)]


def test_retain_grad_of_an_intermediate():
    y = leaf(3) * 2
    y.retain_grad()
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0] * 3


def test_second_backward_without_retain_is_refused():
    y = leaf(3).exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_retain_graph_allows_a_second_backward():
    x = leaf(3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert torch.equal(x.grad.cpu(), (first * 2).cpu())


def test_saved_tensor_that_was_overwritten_is_refused():
    x = leaf(3)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_leaf_in_place_is_refused():
    with pytest.raises(RuntimeError, match="leaf"):
        leaf(3).add_(1)


def test_saved_tensor_hooks_may_move_to_cpu():
    x = leaf(4, 4)
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    whole = leaf(4, 4)
    (whole.exp() * whole).sum().backward()
    assert torch.equal(x.grad.cpu(), whole.grad.cpu())


def test_double_backward_agrees_with_cpu():
    def case(device):
        x = leaf(4, 4, device=device)
        (g,) = torch.autograd.grad((x.tanh() @ x).pow(2).sum(), x, create_graph=True)
        g.square().sum().backward()
        return x.grad

    check(case, rtol=1e-3, atol=1e-4)


def test_third_derivative():
    x = torch.tensor(2.0, device=DUT, requires_grad=True)
    y = x**4
    for _ in range(3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    assert y.item() == 48.0


def test_gradcheck_in_float64():
    x = inp(3, 2, dtype=torch.float64).to(DUT).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: (t.sin() @ t.mT).softmax(-1), (x,))


def test_gradgradcheck_in_float64():
    x = inp(3, dtype=torch.float64).to(DUT).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda t: t.sigmoid() * t, (x,))


def blocks() -> nn.Sequential:
    """Layers with dropout, so that a replay must draw the same masks."""
    return module(
        lambda: nn.Sequential(
            *[
                nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh())
                for _ in range(4)
            ]
        ),
        DUT,
    )


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_gives_the_bits_of_the_plain_run(use_reentrant: bool):
    def run(with_checkpoint: bool) -> list[torch.Tensor]:
        net = blocks()
        x = leaf(4, 8)
        torch.manual_seed(5)
        y = x
        for block in net:
            if with_checkpoint:
                y = checkpoint(block, y, use_reentrant=use_reentrant)
            else:
                y = block(y)
        y.sum().backward()
        return [x.grad.cpu(), *(g.cpu() for g in grads(net))]

    for plain, replayed in zip(run(False), run(True), strict=True):
        assert torch.equal(plain, replayed)


def test_checkpoint_sequential():
    net = blocks().eval()
    x, y = leaf(4, 8), leaf(4, 8)
    checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()
    net(y).sum().backward()
    assert torch.equal(x.grad.cpu(), y.grad.cpu())


class Cube(torch.autograd.Function):
    """x ** 3 with a backward of its own that can be differentiated again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


def test_custom_function():
    x = torch.tensor([1.0, 2.0], device=DUT, requires_grad=True)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_custom_function_twice():
    x = torch.tensor([1.0, 2.0], device=DUT, requires_grad=True)
    (g,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_custom_function_that_marks_its_input_dirty():
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = leaf(3)
    y = AddOne.apply(x * 2)
    y.sum().backward()
    assert x.grad.tolist() == [10.0] * 3


def test_custom_function_that_reads_a_value_in_backward():
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * (2 if grad.sum().item() > 0 else 3)

    x = leaf(3)
    Gate.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_exception_in_backward_leaves_the_device_sound():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError("in backward")

    x = leaf(3)
    with pytest.raises(ZeroDivisionError, match="in backward"):
        Broken.apply(x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_finds_the_nan():
    x = torch.zeros(3, device=DUT, requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = (x / x).sum()
        with pytest.raises(RuntimeError, match="DivBackward0.*nan"):
            y.backward()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_changes_no_bit():
    def run(anomaly: bool) -> torch.Tensor:
        x = leaf(6, 6)
        with torch.autograd.set_detect_anomaly(anomaly):
            (x.exp() @ x.mT).softmax(-1).square().sum().backward()
        return x.grad.cpu()

    assert torch.equal(run(True), run(False))


def test_no_grad_records_no_graph():
    x = leaf(3)
    with torch.no_grad():
        assert (x * 2).grad_fn is None


def test_inference_mode_gives_the_same_bits():
    x = inp(5, 5).to(DUT)
    with torch.inference_mode():
        inside = (x @ x).gelu() if hasattr(x, "gelu") else F.gelu(x @ x)
    assert torch.equal(inside.cpu(), F.gelu(x @ x).cpu())


def test_inference_tensor_is_refused_by_autograd():
    with torch.inference_mode():
        x = torch.ones(3, device=DUT)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        (x * leaf(3)).sum().backward()


def test_gradient_of_a_write_through_a_view():
    def case(device):
        w = torch.ones(4, 3, device=device, requires_grad=True)
        h = w * 2
        h.t()[1] *= 5
        h[0, 1:] = 7
        (h * torch.arange(12.0, device=device).view(4, 3)).sum().backward()
        return w.grad

    check(case, exact=True)


def test_gradients_across_devices():
    x = torch.ones(3, requires_grad=True)
    (x.to(DUT) * 2).sum().cpu().backward()
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [2.0] * 3


def test_backward_in_another_thread():
    x = leaf(3)
    loss = (x * 4).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [4.0] * 3


def test_clip_grad_norm_and_value():
    def case(device):
        net = net_of(device)
        (net(inp(5, 4).to(device)) * 100).sum().backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        return norm, grads(net)

    check(case, rtol=RTOL, atol=ATOL)


def test_backward_of_many_ops_in_one_graph():
    x = leaf(16)
    y = x
    for _ in range(2000):
        y = y * 0.999 + 0.001
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), torch.full((16,), 0.999**2000))
