"""What ran where, and why windows ended."""

import json
from typing import Any

from . import _C


def get_executed_ops() -> list[str]:
    """Names of the ops that ran on the device, one entry per call; synchronize first.

    >>> torch_neuronx.clear_op_tracking(); torch_neuronx.get_executed_ops()
    []
    """
    return _per_call(_C.executed_ops())


def get_fallback_ops() -> list[str]:
    """Names of the ops that ran on the host, one entry per call; synchronize first.

    >>> torch_neuronx.clear_op_tracking(); torch_neuronx.get_fallback_ops()
    []
    """
    return _per_call(_C.fallback_ops())


def clear_op_tracking() -> None:
    """Forgets what `get_executed_ops` and `get_fallback_ops` have counted.

    >>> torch_neuronx.clear_op_tracking()
    """
    _C.clear_op_tracking()


def _per_call(counts: list[tuple[str, int]]) -> list[str]:
    return [name for name, count in counts for _ in range(count)]


# Reasons that say something about the mode, nothing about a line.
ENDS_OF_EVERY_OP = ("plain-eager", "launch-blocking")


class WindowReport(dict[str, Any]):
    """Windows, recorded ops, why windows ended, at which lines, and ops run on the host.

    Keys: `windows`, `ops`, `ends` {reason: count}, `lines` {"file:line reason": count},
    `line_ops` (the ops of these windows), `host_ops` {op: count}, `backward` (passes that
    ran `lean`, their `lean_nodes`, and `original` {why PyTorch's engine ran it: count}).
    As text it is a table.

    >>> print(WindowReport(windows=1, ops=2, ends={}, lines={}, host_ops={}))
    windows 1, ops recorded 2 (2.0 per window)
    """

    def __str__(self) -> str:
        return self.text()

    def json(self, indent: int | None = None) -> str:
        """The report as JSON.

        >>> WindowReport(windows=1).json()
        '{"windows": 1}'
        """
        return json.dumps(self, indent=indent)

    def text(self, with_lines: bool = True) -> str:
        """The report as a table; `with_lines`: with lines and host ops.

        >>> WindowReport(windows=1, ops=2, ends={}).text(with_lines=False)
        'windows 1, ops recorded 2 (2.0 per window)'
        """
        windows, ops = self["windows"], self["ops"]
        mean = f"{ops / windows:.1f}" if windows else "none"
        out = [f"windows {windows}, ops recorded {ops} ({mean} per window)"]
        if ends := _most(self["ends"]):
            out.append("why windows ended")
            help_of = dict(_C.window_ends())
            width = max(len(reason) for reason, _ in ends)
            out += [f"{n:>10}  {why:{width}}  {help_of.get(why, '')}" for why, n in ends]
        if not with_lines:
            return "\n".join(out)
        lines = _most(self["lines"])
        lines = [row for row in lines if not row[0].endswith(ENDS_OF_EVERY_OP)]
        if lines:
            out.append("lines that ended most windows")
            out += [f"{count:>10}  {line}" for line, count in lines[:10]]
        out += _backward_lines(self.get("backward", {}))
        if host := _most(self["host_ops"])[:20]:
            out.append("ops that ran on the host")
            out += [f"{count:>10}  {name}" for name, count in host]
        return "\n".join(out)


def _backward_lines(backward: dict[str, Any]) -> list[str]:
    original = _most(backward.get("original", {}))
    if not original and not backward.get("lean"):
        return []
    nodes = backward["lean_nodes"]
    out = [f"backward passes run by the lean loop {backward['lean']}, {nodes} nodes"]
    if original:
        out.append("backward passes run by PyTorch's engine")
        help_of = dict(_C.original_engine_reasons())
        width = max(len(reason) for reason, _ in original)
        out += [f"{n:>10}  {why:{width}}  {help_of.get(why, '')}" for why, n in original]
    return out


def _most(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Entries that have a count, largest first."""
    return sorted(((k, n) for k, n in counts.items() if n), key=lambda entry: -entry[1])


def window_report() -> WindowReport:
    """Counts since the start or the last `reset_window_report`.

    >>> torch.neuron.window_report()["windows"] >= 0
    True
    """
    return WindowReport(_C.window_report(), backward=_C.backward_report())


def compile_report() -> dict[str, float]:
    """What became of kernels that were large enough to be compiled, since the start.

    `kernel_hits` and `kernel_misses`: runs of kernels seen before, and seen first;
    `executable_hits` and `executable_misses`: the same of what is not fused;
    `compiles`, `failures` and `seconds` of the compiling thread, and how many kernels
    are `waiting` for it; `disk_hits` and `disk_misses` of the cache on disk.

    >>> torch.neuron.compile_report()["compiles"] >= 0
    True
    """
    return _C.compile_report()


def reset_window_report() -> None:
    """Sets the counts of `window_report` to zero.

    >>> torch.neuron.reset_window_report()
    """
    _C.reset_window_report()
    _C.reset_backward_report()
