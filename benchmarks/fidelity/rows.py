"""The published figures of one logical core, each with the program that gives it.

A program is run on the device, dry, and the simulated clock is read. "fit": a constant of
src/device/targets.def was chosen by this row. "test": none was.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from esm2 import Esm2
from torch import Tensor

CALLS = 50  # of which the mean is taken
FULL_WINDOW = 4096  # ops
LENGTH = 512  # tokens of ESM-2; not published, chosen by its compiled row
BF16 = torch.bfloat16
CORES = 2  # physical ones of a device


@dataclass
class Row:
    """A published figure; `predict` runs the program and returns ours."""

    name: str
    unit: str
    published: float
    predict: Callable[[], float]
    role: str = "test"
    cores: int = CORES
    is_quick: bool = True


def end_window() -> None:
    """Submits what is recorded, without waiting."""
    if torch.neuron.is_adaptive_eager():
        torch.neuron.set_adaptive_eager(False)
        torch.neuron.set_adaptive_eager(True)


def grow_window() -> None:
    """Lets a window hold FULL_WINDOW ops; a read makes it small again."""
    x, size = torch.zeros(1, device="neuron"), 16
    while torch.neuron.is_adaptive_eager() and size < FULL_WINDOW:
        for _ in range(size):
            x.add_(1)
        size *= 2
    end_window()


def time_calls(call: Callable[[], object], calls: int = CALLS) -> float:
    """Simulated microseconds of one call among many, each a window of its own."""
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    grow_window()
    result = call()
    end_window()
    start.record()
    start.synchronize()  # the host starts with the device, and a window keeps its size
    for _ in range(calls):
        result = call()
        end_window()
    end.record()
    end.synchronize()
    del result  # while it was alive, it had to be computed
    return start.elapsed_time(end) * 1e3 / calls


def eager(make: Callable[[], Callable[[], object]]) -> Callable[[], float]:
    """Microseconds of one call, one program per op."""

    def predict() -> float:
        with torch.neuron.adaptive_eager(False):
            return time_calls(make())

    return predict


def compiled(make: Callable[[], Callable[[], object]]) -> Callable[[], float]:
    """Microseconds of one call as one adaptive window."""

    def predict() -> float:
        with torch.neuron.adaptive_eager(True):
            return time_calls(make())

    return predict


def tensor(*sizes: int, dtype: torch.dtype = BF16) -> Tensor:
    """Numbers nobody looks at."""
    return torch.zeros(sizes, dtype=dtype, device="neuron")


def small_ops() -> Callable[[], object]:
    """Two different ops, so that each is a program to load: halved by its row."""
    x = tensor(128)
    return lambda: (x + x, x * x)


def one_small_op() -> Callable[[], object]:
    x = tensor(128)
    return lambda: x + x


def chain(repeats: int) -> Callable[[], Callable[[], object]]:
    def make() -> Callable[[], object]:
        x, bias = tensor(1024, 1024), tensor(1024)

        def call() -> Tensor:
            y = x
            for _ in range(repeats):
                y = F.silu(y + bias)
            return y

        return call

    return make


def gemm(rows: int) -> Callable[[], Callable[[], object]]:
    def make() -> Callable[[], object]:
        a, b = tensor(rows, 4096), tensor(4096, 4096)
        return lambda: a @ b

    return make


def add() -> Callable[[], object]:
    x, y = tensor(1024, 1024), tensor(1024, 1024)
    return lambda: x + y


def softmax() -> Callable[[], object]:
    x = tensor(1024, 1024)
    return lambda: x.softmax(-1)


def attention(length: int) -> Callable[[], Callable[[], object]]:
    def make() -> Callable[[], object]:
        query, key, value = (tensor(1, 8, length, 128) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(query, key, value)

    return make


def square_float32() -> Callable[[], object]:
    a, b = (tensor(2048, 2048, dtype=torch.float32) for _ in range(2))
    return lambda: a @ b


class Esm:
    """One forward pass in a mode: its time and what was counted. Measured once."""

    def __init__(self, is_compiled: bool) -> None:
        self.is_compiled = is_compiled
        self._measured: dict[str, float] = {}

    def get(self, name: str) -> Callable[[], float]:
        """The figure `name` of `measure`, when its turn comes."""
        return lambda: self.measure()[name]

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """Runs the model the first time; returns its figures."""
        if self._measured:
            return self._measured
        with torch.device("neuron"):
            model = Esm2(LENGTH).eval().to(BF16)
            tokens = torch.zeros(1, LENGTH, dtype=torch.int64)
            mask = torch.zeros(1, 1, 1, LENGTH, dtype=BF16)
        with torch.neuron.adaptive_eager(self.is_compiled):
            microseconds = time_calls(lambda: model(tokens, mask), 2)
            # The difference leaves out what lets the window grow, and the first load.
            steps = [self._count(lambda: model(tokens, mask), calls) for calls in (1, 2)]
        self._measured = {
            name: getattr(steps[1], name) - getattr(steps[0], name)
            for name in ("launches", "executions", "copy_ins", "allocations", "swaps")
        }
        self._measured["swaps"] *= CORES
        self._measured["ms"] = microseconds / 1e3
        return self._measured

    @staticmethod
    def _count(forward: Callable[[], object], calls: int) -> "torch.neuron.StepTime":
        with torch.neuron.time_step() as step:
            grow_window()
            for _ in range(calls):
                kept = forward()
                end_window()
            del kept
        return step


def two_windows() -> float:
    """Programs of a function that prints in its middle."""
    with torch.neuron.adaptive_eager(True):
        x = tensor(128)
        with torch.neuron.time_step() as step:
            y = x + 1
            str(y.sum().item())
            (y * 2).sum()
        return step.launches


def link(to_device: bool) -> Callable[[], float]:
    """GiB per second of pageable copies."""

    def predict() -> float:
        size = 64 << 20
        host, there = (
            torch.zeros(size, dtype=torch.uint8),
            tensor(size, dtype=torch.uint8),
        )
        with torch.neuron.time_step() as step:
            there.copy_(host) if to_device else there.cpu()
        return size / (1 << 30) / (step.simulated_ms * 1e-3)

    return predict


def hbm() -> float:
    """TB per second of an add in place."""
    x = tensor(128 << 20)
    with torch.neuron.adaptive_eager(False):
        return 2 * x.nbytes / 1e12 / (time_calls(lambda: x.add_(1)) * 1e-6)


def halved(predict: Callable[[], float]) -> Callable[[], float]:
    return lambda: predict() / 2


def in_ms(predict: Callable[[], float]) -> Callable[[], float]:
    return lambda: predict() / 1e3


def table() -> list[Row]:
    """All rows. Where users gave a range, its middle."""
    rows = [
        Row("eager, per op", "us", 60, halved(eager(small_ops))),
        Row("compiled launch", "us", 97.5, compiled(one_small_op), "fit submit_window"),
    ]
    published = {1: (140, 103), 4: (512, 97), 16: (2035, 206), 64: (8236, 707)}
    for n, (in_eager, in_compiled) in published.items():
        role = "fit swap" if n == 64 else "test"
        rows.append(Row(f"silu(x+b) x {n}, eager", "us", in_eager, eager(chain(n)), role))
        rows.append(
            Row(f"silu(x+b) x {n}, compiled", "us", in_compiled, compiled(chain(n)))
        )
    for name, make, in_eager, in_compiled in (
        ("gemm 1024x4096x4096", gemm(1024), 283, 290),
        ("gemm 2048x4096x4096", gemm(2048), 531, 540),
        ("add 1024x1024", add, 52.5, 75.5),
        ("softmax 1024x1024", softmax, 55.8, 75.3),
        ("attention 2048x8x128", attention(2048), 347, 332),
        ("attention 4096x8x128", attention(4096), 781, 782),
    ):
        rows.append(Row(f"{name}, eager", "us", in_eager, eager(make)))
        rows.append(Row(f"{name}, compiled", "us", in_compiled, compiled(make)))
    for row in rows:
        if row.name == "gemm 1024x4096x4096, eager":
            row.role = "fit launch"
        if row.name == "add 1024x1024, compiled":
            row.role = "fit submit_window"
    rows += [
        Row("matmul 2048^3 float32", "ms", 0.845, in_ms(eager(square_float32))),
        Row(
            "matmul 2048^3 float32, 1 core",
            "ms",
            1.6,
            in_ms(eager(square_float32)),
            "fit float32_passes",
            cores=1,
        ),
        Row("add_ in HBM", "TB/s", 0.58, hbm, "fit hbm_efficiency"),
        Row("host to device", "GiB/s", 7, link(True), "fit link_rate"),
        Row("device to host", "GiB/s", 7, link(False), "fit link_rate"),
        Row("programs around a print", "", 2, two_windows),
    ]
    return rows + esm_rows()


def esm_rows() -> list[Row]:
    """ESM-2 650M forward, eager and compiled."""
    rows = []
    for is_compiled, figures in (
        (False, (124.5, 1050, 2100, 13785, 5196, 1968)),
        (True, (15.6, 1, 2, 14, 6, 0)),
    ):
        esm, mode = Esm(is_compiled), "compiled" if is_compiled else "eager"
        fits = ("", "", "", "copy_ins_per_launch", "allocations_per_launch", "")
        if is_compiled:
            fits = ("LENGTH", "", "", "", "", "")
        names = ("ms", "launches", "executions", "copy_ins", "allocations", "swaps")
        for name, fit, published in zip(names, fits, figures, strict=True):
            rows.append(
                Row(
                    f"ESM-2 650M, {mode}" + ("" if name == "ms" else f": {name}"),
                    "ms" if name == "ms" else "",
                    published,
                    esm.get(name),
                    f"fit {fit}" if fit else "test",
                    is_quick=False,
                )
            )
    return rows
