"""Asks the device why: windows, fusion, caches, compiles and host ops of a small loop.

python examples/explain.py
NEURON_LOG=windows,cache python examples/explain.py     the same, live
"""

import time

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x: Tensor) -> Tensor:
        rms = (x * x).mean(-1, keepdim=True).add(1e-6).rsqrt()
        return x + self.down(nn.functional.silu(self.up(x * rms * self.scale)))


def step(model: nn.Module, x: Tensor) -> float:
    loss = model(x).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    return loss.item()  # the host reads a value: the window ends here


def third_smallest(x: Tensor) -> float:
    return x.flatten().kthvalue(3).values.item()  # an op without a row: the host runs it


def chain(x: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.tanh(x * 0.75 + 0.5) - x.exp() * 0.125
    return x


def show(title: str) -> None:
    print(f"\n--- {title}")


def main() -> None:
    torch.manual_seed(0)
    torch.neuron.set_adaptive_eager(True)
    model = Model().to("neuron")
    x = torch.randn(128, 64).to("neuron")
    for _ in range(8):  # first sights: plans, and kernels that are worth compiling
        step(model, x)

    show("two steps, and an op of the host")
    with torch.neuron.explain() as why:
        step(model, x)
        step(model, x)
        third_smallest(x)
    print(why)

    show("a kernel that runs often is compiled, in the background")
    large = torch.randn(1 << 20).to("neuron")
    with torch.neuron.explain() as why:
        for _ in range(10):
            chain(large).sum().item()
        while torch.neuron.compile_report()["waiting"]:
            time.sleep(0.001)
    for event in why["compiled"]:
        print(event)

    show("the same in bfloat16: which field of the key was new?")
    with torch.neuron.explain() as why:
        chain(large.bfloat16()).sum().item()
    for miss in why["cache_misses"]:
        print(f"{miss['cache']}: {miss['difference']}")

    show("where does Python wait? (sync_debug_mode)")
    with torch.neuron.sync_debug_mode("error"):
        try:
            step(model, x)
        except RuntimeError as error:
            print(str(error).splitlines()[0])

    show("one window: ops, plan, and the first fused kernel")
    with torch.neuron.capture_windows() as windows:
        y = (x * 2 + 1).tanh()
        y.sum().item()
    print(windows[0].ir + windows[0].plan, end="")
    llvm_ir = windows[0].kernels[0].llvm_ir.splitlines()
    print(f"and {len(llvm_ir)} lines of LLVM IR, the first of them")
    print("\n".join(llvm_ir[3:6]))

    show("plain against adaptive, every bit of every op (compare)")
    print(torch.neuron.compare(step, model, x))

    show("the same window with at most two ops a kernel (set_max_fused_ops)")
    torch.neuron.set_max_fused_ops(2)
    with torch.neuron.explain() as why:
        (x * 2 + 1).tanh().sum().item()
    torch.neuron.set_max_fused_ops(0)
    for row in why["apart"]:
        print(f"{row['producer']} -> {row['consumer']}: {row['reason']}")


if __name__ == "__main__":
    main()
