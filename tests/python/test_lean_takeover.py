"""Which backward passes PyTorch's engine takes over, and what outlives a pass."""

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from device_under_test import DUT, inp, only_neuron, run_script
from lean_autograd import counts, expect, leaf, lean_autograd, to_bits

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]

#: Deeper than any stack that would free such a graph by recursion.
DEEP = 100_000


def test_switched_off():
    with lean_autograd(False), expect(0, switched_off=1):
        leaf(3).sum().backward()


def test_cpu_graphs_are_not_counted():
    with expect(0):
        inp(3).requires_grad_().sum().backward()


def test_mixed_devices_go_to_the_original_engine():
    x = inp(3).requires_grad_()
    with expect(0, mixed_devices=1):
        (x.to(DUT) * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_other_streams_go_to_the_original_engine():
    x = leaf(3)
    with torch.Stream(device=DUT):
        y = x.sin()
    with expect(0, other_stream=1):
        y.sum().backward()
    assert torch.equal(x.grad, x.detach().cos())


def test_retained_inputs_go_to_the_original_engine():
    x = leaf(3)
    y = x * 2
    with expect(0, retained_input=1):
        y.square().sum().backward(inputs=[y])
    assert torch.equal(y.grad, 2 * y.detach())


def test_gradient_edges_go_to_the_original_engine():
    x = leaf(3)
    edge = torch.autograd.graph.get_gradient_edge(x)
    with expect(0, arguments=1):
        (grad,) = torch.autograd.grad((x * 2).sum(), [edge])
    assert grad.tolist() == [2.0] * 3


def test_profiler_sees_every_node():
    x = leaf(3)
    with expect(0, profiler=1), torch.autograd.profiler.profile() as profile:
        x.sin().sum().backward()
    names = {event.name for event in profile.function_events}
    assert {"SinBackward0", "SumBackward0", "torch::autograd::AccumulateGrad"} <= names


def test_batched_gradients_go_to_the_original_engine():
    def case() -> list:
        x = leaf(3)
        return list(
            torch.autograd.grad(x * x, x, torch.eye(3, device=DUT), is_grads_batched=True)
        )

    with lean_autograd(False):
        wanted = to_bits(case())
    assert to_bits(case()) == wanted
    assert counts()["original"]["arguments"] >= 1


def test_functional_transforms():
    x = inp(3).to(DUT)
    grad = torch.func.grad(lambda t: (t**3).sum())(x)
    assert torch.allclose(grad, 3 * x * x)
    hessian = torch.func.hessian(lambda t: (t**3).sum())(x)
    assert torch.allclose(hessian, torch.diag(6 * x), atol=1e-6)


def test_make_fx_traces_a_backward():
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x.detach().requires_grad_()
        return torch.autograd.grad(y.sin().sum(), y)[0]

    x = inp(3).to(DUT)
    graph = make_fx(step)(x)
    assert any("cos" in str(node.target) for node in graph.graph.nodes)
    assert torch.equal(graph(x), x.cos())


def test_compiled_training_step():
    def case(compiled: bool) -> list:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to(DUT)
        call = torch.compile(net, backend="aot_eager") if compiled else net
        call(inp(2, 3).to(DUT)).square().sum().backward()
        return [p.grad.cpu() for p in net.parameters()]

    for got, wanted in zip(case(True), case(False), strict=True):
        torch.testing.assert_close(got, wanted)


def test_compiled_autograd_takes_the_graph():
    x = leaf(3)
    compiler = lambda graph: torch.compile(graph, backend="eager")  # noqa: E731
    with expect(0, compiled_autograd=1):
        with torch._dynamo.compiled_autograd._enable(compiler):
            x.sin().sum().backward()
    assert torch.equal(x.grad, x.detach().cos())
    with expect(1):
        x.sin().sum().backward()


def test_two_threads_run_backward_at_once():
    shared = leaf(64)
    loss = shared.sin().exp().sum()
    results: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        for _ in range(20):
            own = leaf(16, seed=number)
            (own.sin() * own).sum().backward()
            results[number] = own.grad.cpu()
            torch.autograd.grad(loss, shared, retain_graph=True)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, grad in results.items():
        x = inp(16, seed=number)
        torch.testing.assert_close(grad, x.cos() * x + x.sin())


def test_other_python_threads_run_during_a_pass():
    entered, done = threading.Event(), threading.Event()

    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            entered.set()
            assert done.wait(timeout=60)
            return grad

    def other() -> None:
        assert entered.wait(timeout=60)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    Waits.apply(leaf(3)).sum().backward()
    thread.join()


class Square(torch.autograd.Function):
    """A node in Python, which holds its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0]


def test_the_graph_is_freed():
    x = leaf(3)
    y = x.sin()
    holder = Square.apply(y)
    node, saved = weakref.ref(holder.grad_fn), weakref.ref(y)
    holder.sum().backward()
    del holder, y
    gc.collect()
    assert node() is None
    assert saved() is None


def test_saved_tensors_go_while_the_pass_runs():
    """Not all at its end: memory would peak."""
    alive: list = []
    x = leaf(3)
    a = x.exp()
    b = a.exp()
    kept = weakref.ref(b)
    loss = b.exp().sum()
    a.register_hook(lambda g: alive.append(kept()))
    del b
    loss.backward()
    assert alive == [None]


def test_memory_peak_is_not_above_the_original():
    def peak() -> int:
        x = leaf(256, 256)
        y = x
        for _ in range(20):
            y = y.sin()
        loss = y.sum()
        del y
        torch.neuron.synchronize()
        torch.neuron.reset_peak_memory_stats()
        base = torch.neuron.memory_allocated()
        loss.backward()
        torch.neuron.synchronize()
        return torch.neuron.max_memory_allocated() - base

    with lean_autograd(False):
        wanted = peak()
    with lean_autograd(True):
        assert peak() <= wanted


def test_a_very_deep_graph():
    x = leaf(1)
    y = x
    for _ in range(DEEP):
        y = y.view(1)
    with expect(1):
        y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del y
    gc.collect()


def test_the_loop_node_is_refused_after_its_pass():
    nodes = []
    x = leaf(3)
    x.register_hook(lambda g: nodes.append(torch._C._current_autograd_node()))
    (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="called after the pass"):
        nodes[0](torch.zeros(()))


FORK = """
import os, torch
y = torch.ones(3, device="neuron", requires_grad=True) * 2
pid = os.fork()
if pid == 0:
    x = torch.ones(3, requires_grad=True)
    (x * 3).sum().backward()
    os._exit(0 if x.grad.tolist() == [3.0] * 3 else 1)
assert os.waitpid(pid, 0)[1] == 0
y.sum().backward()
print("ok")
"""

OFF = """
import torch
x = torch.ones(3, device="neuron", requires_grad=True)
(x * 2).sum().backward()
print(torch.neuron.is_lean_autograd(), torch.neuron.window_report()["backward"])
"""

DDP = """
import sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def work(rank, meeting):
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    ddp = DistributedDataParallel(net)
    scale = torch.full((2,), 2.0, device="neuron", requires_grad=True)
    x = torch.full((2, 3), float(rank + 1))
    (scale * scale).sum().backward()
    ddp(x).square().sum().backward()
    (ddp(x).to("neuron") * scale).sum().backward()
    mine = [p.grad for p in net.parameters()]
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for rank in (0, 1):
        y = plain(torch.full((2, 3), float(rank + 1)))
        (y.square().sum() + (y * 2).sum()).backward()
    for got, p in zip(mine, plain.parameters()):
        torch.testing.assert_close(got, p.grad / 2)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, sys.argv[1:], nprocs=2)
    print("ok")
"""


def test_cpu_backward_in_a_forked_child():
    done = run_script(FORK)
    assert done.stdout == "ok\n", done.stderr


def test_the_environment_switches_it_off():
    done = run_script(OFF, env={"NEURON_LEAN_AUTOGRAD": "0"})
    wanted = {"lean": 0, "lean_nodes": 0, "original": {"switched-off": 1}}
    assert done.stdout == f"False {wanted}\n", done.stderr


def test_data_parallel_over_gloo(tmp_path: Path):
    """On CPU, beside the device: Gloo has no tensors of other devices."""
    script = tmp_path / "ddp.py"
    script.write_text(DDP)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "meeting"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "ok\n", done.stderr
