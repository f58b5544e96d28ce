"""What a backward pass costs per step of a chain: the lean loop next to PyTorch's engine.

    backward.py                  chains of one op, adaptive eager
    backward.py --nodes 200      shorter chains: the pass's own price shows

Sixteen floats, processor time of the calling thread. The graph is built anew for each
pass and is not timed; passes alternate between the two, and the device is idle when the
clock starts. A chain of `y + w` records
nothing in its backward, so it shows the price of the loop itself; what other chains cost
above that is the nodes' own work: unpacking what they saved and recording ops.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

# name: one step of a chain, on the value so far, a vector and a matrix
CASES: dict[str, Callable[..., torch.Tensor]] = {
    "y + w": lambda y, w, m: y + w,
    "y * w": lambda y, w, m: y * w,
    "torch.sin(y)": lambda y, w, m: torch.sin(y),
    "y.view(16)": lambda y, w, m: y.view(16),
    "F.linear(y, m, w)": lambda y, w, m: F.linear(y, m, w),
    "g * y, leaf g": lambda y, w, m: w.requires_grad_() * y,
}
ROW = "{:24}{:>12}{:>10}{:>14}{:>10}{:>12}"
HEAD = ("us per step", "engine min", "median", "lean min", "median", "ratio")


class Chain:
    """Passes over a chain of one op, its length in nodes."""

    def __init__(self, name: str, steps: int) -> None:
        self.step = CASES[name]
        self.steps = steps
        self.grad = torch.ones(16, device="neuron")
        self.matrix = torch.eye(16, device="neuron")

    def microseconds(self, lean: bool) -> float:
        torch.neuron.set_lean_autograd(lean)
        y = torch.ones(16, device="neuron", requires_grad=True)
        w = torch.ones(16, device="neuron")
        for _ in range(self.steps):
            y = self.step(y, w, self.matrix)
        torch.neuron.synchronize()
        start = time.thread_time_ns()
        y.backward(self.grad)
        nanoseconds = time.thread_time_ns() - start
        torch.neuron.synchronize()
        return nanoseconds / self.steps / 1e3


def compare(name: str, steps: int, rounds: int) -> str:
    chain = Chain(name, steps)
    for lean in (False, True):
        chain.microseconds(lean)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for lean in times:
            times[lean].append(chain.microseconds(lean))
    ratio = statistics.median(o / n for o, n in zip(*times.values(), strict=True))
    cells = [f"{f(t):.3f}" for t in times.values() for f in (min, statistics.median)]
    return ROW.format(name, *cells, f"{ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=1000)
    options = parser.parse_args()
    print(ROW.format(*HEAD))
    gc.disable()
    with torch.neuron.adaptive_eager():
        for name in CASES:
            print(compare(name, options.nodes, options.rounds))
            gc.collect()


if __name__ == "__main__":
    main()
