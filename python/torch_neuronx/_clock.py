"""The simulated clock: what the program would cost on the chip. See docs/clock.md.

Simulated time and this machine's time ("wall") are never mixed: every name says which.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from . import _C
from ._device import _DeviceLike, _get_device_index

_ENGINES = ("tensor", "vector", "scalar", "gpsimd")


def device_time(device: _DeviceLike = None) -> float:
    """Simulated milliseconds after all that was recorded; waits for it.

    The clock starts with the first call, the first event with timing, or the first
    `time_step`, and costs nothing before. The difference of two readings is what the
    work between them, copies and submissions included, would have taken on the chip and
    its host. Python's own time is not in it.

    >>> before = torch.neuron.device_time(); x = torch.ones(4, device="neuron") + 1
    >>> torch.neuron.device_time() > before
    True
    """
    return _C.clock_counts(_get_device_index(device, optional=True))["now"] * 1e-6


def elapsed_wall_time(start: torch.Event, end: torch.Event) -> float:
    """Milliseconds of this machine's time between two events with `enable_timing`.

    `start.elapsed_time(end)` gives simulated milliseconds.

    >>> start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    >>> start.record(); end.record(); torch.neuron.elapsed_wall_time(start, end) >= 0
    True
    """
    return _C.elapsed_wall_time(start.event_id or 0, end.event_id or 0)


class StepTime:
    """What the work inside the context cost; filled at its end. As text it is a table.

    Simulated: `simulated_ms` (from begin to end), of which `device_ms` with the compute
    queue busy and `host_ms` with the host busy; they overlap. `utilisation`: engine (or
    "dma") to the share of `device_ms` in which it worked. Counts: `ops`, `launches`,
    `swaps` of the loaded program, `host_ops`, `hbm_bytes`, `bytes_to_device`,
    `bytes_to_host`. This machine's: `wall_ms`.

    >>> with StepTime() as step: x = torch.ones(1 << 20, device="neuron")
    >>> step.launches, step.hbm_bytes
    (1, 4194304)
    """

    def __init__(self, device: _DeviceLike = None) -> None:
        self._index = _get_device_index(device, optional=True)
        self._before: dict[str, float] = {}
        self._counts: dict[str, float] = {}
        self._wall = 0.0
        self.wall_ms = 0.0

    def __enter__(self) -> "StepTime":
        self._before = _C.clock_counts(self._index)
        self._wall = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        after = _C.clock_counts(self._index)
        self.wall_ms = (time.perf_counter() - self._wall) * 1e3
        self._counts = {key: after[key] - self._before[key] for key in after}

    def __getattr__(self, name: str) -> Any:
        counts = self.__dict__.get("_counts", {})
        if name in _MILLISECONDS:
            return counts.get(_MILLISECONDS[name], 0) * 1e-6
        if name == "hbm_bytes":
            return counts.get("bytes_read", 0) + counts.get("bytes_written", 0)
        if name in _COUNTS:
            return counts.get(name, 0)
        raise AttributeError(f"'StepTime' has no attribute {name!r}")

    @property
    def utilisation(self) -> dict[str, float]:
        """Engine to the share of `device_ms` in which it worked."""
        busy = self._counts.get("queue", 0)
        return {
            engine: self._counts.get(engine, 0) / busy if busy else 0.0
            for engine in (*_ENGINES, "dma")
        }

    def __str__(self) -> str:
        shares = "  ".join(f"{e} {share:.0%}" for e, share in self.utilisation.items())
        return "\n".join(
            [
                f"simulated {self.simulated_ms:.3f} ms: "
                f"device busy {self.device_ms:.3f}, host busy {self.host_ms:.3f} "
                f"(wall {self.wall_ms:.3f} ms)",
                f"ops {self.ops}, launches {self.launches}, program swaps {self.swaps}, "
                f"ops on the host {self.host_ops}",
                f"bytes: HBM {self.hbm_bytes:,}, to the device {self.bytes_to_device:,}, "
                f"to the host {self.bytes_to_host:,}",
                f"engines: {shares}",
            ]
        )


_MILLISECONDS = {"simulated_ms": "now", "device_ms": "queue", "host_ms": "host"}
_COUNTS = (
    "ops",
    "launches",
    "executions",
    "swaps",
    "copy_ins",
    "allocations",
    "host_ops",
    "bytes_to_device",
    "bytes_to_host",
)


def time_step(device: _DeviceLike = None) -> StepTime:
    """Context that measures the work inside it on both clocks; see `StepTime`.

    >>> with torch.neuron.time_step() as step: x = torch.ones(4, device="neuron") + 1
    >>> step.simulated_ms > 0 and step.launches > 0
    True
    """
    return StepTime(device)


@contextmanager
def dry_run() -> Iterator[None]:
    """Context in which the clock goes on and kernels are skipped: values are undefined.

    Says what a program too large for this machine would cost. Data that the host reads
    is undefined too, so control flow must not depend on it. `NEURON_SIM_DRY=1` is the
    same for a whole process.

    >>> with torch.neuron.dry_run(), torch.neuron.time_step() as step:
    ...     x = torch.ones(1 << 28, device="neuron").exp().sum()
    >>> step.hbm_bytes > 1 << 30
    True
    """
    before = _C.is_dry()
    _C.set_dry(True)
    try:
        yield
    finally:
        _C.set_dry(before)


def clock_figures() -> list[tuple[str, float, str, str]]:
    """The constants of the simulated chip: name, value, unit, source.

    >>> [value for name, value, *_ in torch.neuron.clock_figures() if name == "dma_start"]
    [1300.0]
    """
    return _C.target_figures()
