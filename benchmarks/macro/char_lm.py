"""The training step of examples/char_lm.py on neuron, next to CPU eager.

    char_lm.py                 all modes, 7 rounds
    char_lm.py --rounds 3 --steps 10

Time. Each mode has its own process. All are alive together and take turns, round by
round, so that noise hits them alike; the ratio is the median over rounds of paired times.
A step draws its batch on the host and copies it, and the loss is read every 10 steps.

Memory. A further process per mode runs ten steps, starting with no tensor but the text.
"tensors" is the peak of bytes that tensors hold: on neuron the allocator's
`max_memory_allocated`; on the CPU the running sum of all allocations and frees that
PyTorch's CPU allocator reports to the profiler. Both count parameters, optimizer state,
activations and temporaries, not the memory of libraries. "RSS" is the peak of resident
memory above the level after the imports; on neuron it holds the simulated HBM as well.
"""

import argparse
import contextlib
import gc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/char_lm.py"
STEPS_PER_READ = 10
MIB = 1 << 20

# mode: device, NEURON_ADAPTIVE_EAGER
MODES = {"cpu": ("cpu", "0"), "adaptive": ("neuron", "1"), "plain": ("neuron", "0")}


# --- in the workers


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def make_step(example: Any, data: tuple[Any, str], device: str) -> Callable[[], Any]:
    import torch

    text, alphabet = data
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = example.CharModel(len(alphabet)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=example.LEARNING_RATE)

    def step() -> torch.Tensor:
        x, y = example.pick_batch(text, generator)
        return example.train_step(model, optimizer, x.to(device), y.to(device))

    return step


def run(step: Callable[[], Any], count: int) -> float:
    """Seconds per step."""
    start = time.perf_counter()
    for i in range(1, count + 1):
        loss = step()
        if i % STEPS_PER_READ == 0 or i == count:
            loss.item()
    return (time.perf_counter() - start) / count


def serve(device: str) -> None:
    """Answers each number of steps on stdin with the time of a step."""
    example = load_example()
    step = make_step(example, example.load_text(), device)
    run(step, 20)
    print("ready", flush=True)
    for line in sys.stdin:
        print(run(step, int(line)), flush=True)


def resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def peak_of_cpu_tensors(work: Callable[[], None]) -> int:
    import torch

    gc.collect()  # what goes now must not count as freed later
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        work()
    events = profile.profiler.kineto_results.events()
    changes = [e for e in events if e.name() == "[memory]"]
    total = peak = 0
    for change in sorted(changes, key=lambda e: e.start_ns()):
        total += change.nbytes()
        peak = max(peak, total)
    return peak


def measure_memory(device: str, steps: int) -> None:
    import torch

    example = load_example()
    data = example.load_text()  # stays on the host in every mode

    def work() -> None:
        run(make_step(example, data, device), steps)

    with contextlib.suppress(OSError):  # start the high-water mark afresh
        Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    work()
    rss = resident("VmHWM") - before
    if device == "cpu":
        tensors = peak_of_cpu_tensors(work)
    else:
        tensors = torch.neuron.max_memory_allocated()
    print(json.dumps({"tensors": tensors, "rss": rss}))


# --- in the parent


def start(mode: str, *arguments: str) -> subprocess.Popen[str]:
    device, adaptive = MODES[mode]
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", device, *arguments],
        env=os.environ | {"NEURON_ADAPTIVE_EAGER": adaptive},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(worker: subprocess.Popen[str], question: str = "") -> str:
    worker.stdin.write(question)
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        sys.exit(f"worker {worker.args[3]} died with status {worker.wait()}")
    return line


def measure_times(rounds: int, steps: int) -> dict[str, list[float]]:
    workers: dict[str, subprocess.Popen[str]] = {}
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    try:
        for mode in MODES:
            workers[mode] = start(mode)
            answer(workers[mode])
        order = list(MODES)
        for _ in range(rounds):
            for mode in order:
                times[mode].append(float(answer(workers[mode], f"{steps}\n")))
            order.append(order.pop(0))
    finally:
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    return times


def measure_peak(mode: str, steps: int) -> dict[str, int]:
    worker = start(mode, "--memory", "--steps", str(steps))
    found = json.loads(answer(worker))
    worker.communicate()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="steps per round")
    parser.add_argument("--worker", metavar="DEVICE", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker and options.memory:
        measure_memory(options.worker, options.steps)
        return
    if options.worker:
        serve(options.worker)
        return
    times = measure_times(options.rounds, options.steps)
    peaks = {mode: measure_peak(mode, STEPS_PER_READ) for mode in MODES}
    row = "{:10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}"
    head = ("ms a step", "min", "median", "x cpu", "tensors MiB", "x cpu", "RSS MiB")
    print(row.format(*head))
    for mode, t in times.items():
        ratio = statistics.median(a / b for a, b in zip(t, times["cpu"], strict=True))
        peak = peaks[mode]["tensors"]
        cells = [min(t) * 1e3, statistics.median(t) * 1e3, ratio]
        cells += [peak / MIB, peak / peaks["cpu"]["tensors"], peaks[mode]["rss"] / MIB]
        print(row.format(mode, *(f"{cell:.2f}" for cell in cells)))


if __name__ == "__main__":
    main()
