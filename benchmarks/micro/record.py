"""What recording one op costs, from Python and from C++, next to CPU eager's whole op.

    record.py              Python, then C++ if build/benchmarks/micro/record is built
    record.py --plain      plain eager instead of adaptive

Sixteen floats. Rounds alternate between the devices; the device runs what was recorded
while the clock stands still. The ratio is the median over rounds of paired times.
"""

import argparse
import json
import statistics
import subprocess
import timeit
from pathlib import Path

import torch
import torch.nn.functional as F

CALLS = 200  # below the size cap of a window
BINARY = Path(__file__).resolve().parents[2] / "build/benchmarks/micro/record"

# name: statement, on tensors a and b without and g with a gradient
CASES = {
    "a + b": "a + b",
    "a + b, needs grad": "g + b",
    "a + b, needs grad, in no_grad": "g + b",
    "a * b": "a * b",
    "a.add_(b)": "a.add_(b)",
    "a.view(4, 4)": "a.view(4, 4)",
    "a.view(4, 4), needs grad": "g.view(4, 4)",
    "a[2:6]": "a[2:6]",
    "F.linear": "F.linear(x, w, a)",
    "F.linear, needs grad": "F.linear(x, w, g)",
}
ROW = "{:32}{:>10}{:>10}{:>12}{:>12}{:>14}"
HEAD = ("us per call", "cpu min", "median", "neuron min", "median", "cpu / neuron")


class Case:
    """One statement on one device."""

    def __init__(self, name: str, device: str) -> None:
        self.device = device
        a, b = torch.ones(16, device=device), torch.zeros(16, device=device)
        values = {
            "a": a,
            "b": b,
            "g": torch.ones(16, device=device, requires_grad=True),
            "x": torch.ones(4, 16, device=device),
            "w": torch.ones(16, 16, device=device),
            "F": F,
        }
        self.timer = timeit.Timer(CASES[name], globals=values)
        self.grad = "no_grad" not in name

    def microseconds(self) -> float:
        with torch.set_grad_enabled(self.grad):
            seconds = self.timer.timeit(CALLS)
        if self.device != "cpu":
            torch.accelerator.synchronize()
        return seconds / CALLS * 1e6


def print_row(name: str, cpu: list[float], neuron: list[float]) -> None:
    ratio = statistics.median(c / n for c, n in zip(cpu, neuron, strict=True))
    cells = (f(t) for t in (cpu, neuron) for f in (min, statistics.median))
    print(ROW.format(name, *(f"{cell:.3f}" for cell in cells), f"{ratio:.2f}"))


def from_python(rounds: int) -> None:
    print(ROW.format(*HEAD))
    for name in CASES:
        cpu, neuron = Case(name, "cpu"), Case(name, "neuron")
        for case in (cpu, neuron):
            case.microseconds()
        times = [(cpu.microseconds(), neuron.microseconds()) for _ in range(rounds)]
        print_row(name, *map(list, zip(*times, strict=True)))


def from_cpp() -> None:
    command = [BINARY, "--benchmark_format=json"]
    command.append("--benchmark_enable_random_interleaving=true")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, dict[str, float]] = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        name, device = row["run_name"].split("/")[:2]
        times = found.setdefault(name, {})
        times[f"{device} {row['aggregate_name']}"] = row["real_time"] / 1000
    print("\n" + ROW.format("us per call from C++", *HEAD[1:]))
    for name, t in found.items():
        cells = [t[f"{d} {m}"] for d in ("cpu", "neuron") for m in ("min", "median")]
        ratio = t["cpu median"] / t["neuron median"]
        print(ROW.format(name, *(f"{cell:.3f}" for cell in cells), f"{ratio:.2f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--plain", action="store_true", help="plain eager")
    options = parser.parse_args()
    with torch.neuron.adaptive_eager(not options.plain):
        from_python(options.rounds)
    if BINARY.exists():
        from_cpp()


if __name__ == "__main__":
    main()
