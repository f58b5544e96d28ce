"""Answers to "why": windows, kernels, caches, compiles and host ops of some code."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from . import _C
from ._report import ENDS_OF_EVERY_OP, WindowReport, compile_report

_TOPICS = ["windows", "fusion", "cache", "compile", "fallback"]
_MOST_ROWS = 20
_WIDTH_OF_OPS = 60  # Python lines stand behind; longer ops push theirs to the right


class Explanation(dict[str, Any]):
    """What the engine did and why; a `dict` that JSON can hold, and a page as text.

    `report` and `compiles` are counters. The other keys are there when it was used as a
    context: `windows` (why and where they ended), `groups` (kernels of several ops),
    `apart` (neighbours that stayed apart, and why), `left_out`, `cache_misses` (with the
    field that differed from the nearest entry), `compiled` and `calls` (of PyTorch's CPU
    kernels, with their time).

    >>> sorted(torch_neuronx.explain())
    ['compiles', 'report']
    """

    def __init__(self) -> None:
        super().__init__(report=dict(_C.window_report()), compiles=compile_report())

    def __enter__(self) -> "Explanation":
        _C.drain()
        self._before = dict(_C.window_report()), compile_report()
        self._reader = _C.JournalReader(_TOPICS)
        return self

    def __exit__(self, *_: object) -> None:
        _C.drain()
        entries = self._reader.take()
        self._reader.close()
        report, compiles = self._before
        self["report"] = _minus(_C.window_report(), report)
        self["compiles"] = _minus(compile_report(), compiles)
        self["lost_entries"] = self._reader.num_lost()
        self.update(_collect(entries))

    def json(self, indent: int | None = None) -> str:
        """The explanation as JSON.

        >>> torch_neuronx.explain().json()[0]
        '{'
        """
        return json.dumps(self, indent=indent)

    def __str__(self) -> str:
        is_context = "windows" in self
        out = [WindowReport(self["report"]).text(with_lines=not is_context)]
        if is_context:
            out += _window_lines(self["windows"])
            out += _group_lines(self["groups"], self["left_out"])
            out += _apart_lines(self["apart"])
        out += _cache_lines(self["compiles"], self.get("cache_misses", []))
        out += _compile_lines(self["compiles"], self.get("compiled", []))
        out += _call_lines(self.get("calls", []))
        return "\n".join(out)


def explain() -> Explanation:
    """Why the engine did what it did: since the start, or as a context, in its block.

    As a context it ends open windows and runs what is pending when it begins and ends.

    >>> with torch_neuronx.explain() as why:
    ...     _ = (torch.ones(4, device="neuron") * 2).sum().item()
    >>> why["report"]["ops"]
    3
    """
    return Explanation()


def _minus(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Counters of `now` without those of `before`; what did not count is left out."""
    out: dict[str, Any] = {}
    for key, value in now.items():
        if isinstance(value, dict):
            out[key] = {k: n for k, n in _minus(value, before.get(key, {})).items() if n}
        else:
            out[key] = max(value - before.get(key, 0), 0)
    return out


def _grouped(
    entries: Iterable[dict[str, Any]], *keys: str
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Entries with equal values of `keys`, in the order of their first."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        groups[tuple(entry[key] for key in keys)].append(entry)
    return [(dict(zip(keys, at, strict=True)), rows) for at, rows in groups.items()]


def _collect(entries: list[dict[str, Any]]) -> dict[str, Any]:
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        events[entry["event"]].append(entry)
    windows = [
        {
            **at,
            "count": len(rows),
            "least_ops": min(row["ops"] for row in rows),
            "most_ops": max(row["ops"] for row in rows),
        }
        for at, rows in _grouped(events["window"], "reason", "line")
    ]
    groups = _grouped(events["group"], "ops", "num_ops", "elements", "line")
    apart = _grouped(events["apart"], "producer", "consumer", "reason", "line")
    misses = _grouped(events["miss"], "cache", "difference")
    compiled = [
        {k: v for k, v in entry.items() if k not in ("topic", "event")}
        for entry in events["compiled"] + events["failed"]
    ]
    calls = [
        {
            **at,
            "count": len(rows),
            "us": sum(row["us"] for row in rows),
            "blocks": max(row["blocks"] for row in rows),
        }
        for at, rows in _grouped(events["call"], "op", "line", "fallback", "at_once")
    ]
    return {
        "windows": windows,
        "groups": [{**at, "count": len(rows)} for at, rows in groups],
        "apart": [{**at, "count": len(rows)} for at, rows in apart],
        "left_out": sum(entry["left_out"] for entry in events["plan"]),
        "cache_misses": [{**at, "count": len(rows)} for at, rows in misses],
        "compiled": compiled,
        "calls": sorted(calls, key=lambda call: -call["us"]),
    }


def _rows(
    title: str, rows: list[dict[str, Any]], show: Callable[[dict[str, Any]], str]
) -> list[str]:
    """A title and a line a row, the most frequent first; nothing without rows."""
    if not rows:
        return []
    ranked = sorted(rows, key=lambda row: -row["count"])[:_MOST_ROWS]
    out = [title] + [f"{row['count']:>10}  {show(row)}" for row in ranked]
    if len(rows) > _MOST_ROWS:
        out.append(f"{'':10}  and {len(rows) - _MOST_ROWS} more")
    return out


def _window_lines(rows: list[dict[str, Any]]) -> list[str]:
    def show(row: dict[str, Any]) -> str:
        least, most = row["least_ops"], row["most_ops"]
        ops = f"{least}" if least == most else f"{least} to {most}"
        return f"{row['reason']} at {row['line']}, {ops} ops"

    rows = [row for row in rows if row["reason"] not in ENDS_OF_EVERY_OP]
    return _rows("where windows ended", rows, show)


def _group_lines(rows: list[dict[str, Any]], left_out: int) -> list[str]:
    out = _rows(
        "kernels of several ops",
        rows,
        lambda row: (
            f"{row['num_ops']} ops, {row['elements']} elements, from {row['line']}: "
            f"{row['ops']}"
        ),
    )
    if left_out:
        out.append(f"ops left out, since nobody sees their results: {left_out}")
    return out


def _apart_lines(rows: list[dict[str, Any]]) -> list[str]:
    return _rows(
        "neighbours that were not fused",
        rows,
        lambda row: (
            f"{row['producer']} -> {row['consumer']} at {row['line']}: {row['reason']}"
        ),
    )


def _cache_lines(compiles: dict[str, Any], misses: list[dict[str, Any]]) -> list[str]:
    out = ["look-ups in caches"]
    for name, key in (
        ("fused kernels", "kernel"),
        ("other kernels", "executable"),
        ("disk", "disk"),
    ):
        hits, missed = compiles[f"{key}_hits"], compiles[f"{key}_misses"]
        out.append(f"{hits:>10}  hits and {missed:.0f} misses of {name}")
    return out + _rows(
        "what was new in the misses",
        misses,
        lambda row: f"{row['cache']}: {row['difference']}",
    )


def _compile_lines(compiles: dict[str, Any], events: list[dict[str, Any]]) -> list[str]:
    out = [
        f"compiled {compiles['compiles']:.0f} kernels, "
        f"{compiles['failures']:.0f} failures, {compiles['waiting']:.0f} waiting, "
        f"{1000 * compiles['seconds']:.1f} ms on the compiler's thread"
    ]
    for event in events[:_MOST_ROWS]:
        out.append(f"{'':10}  {describe_compile(event)}")
    return out


def describe_compile(event: dict[str, Any]) -> str:
    """One compile as text.

    >>> describe_compile(dict(instructions=3, ms=1.0, tier="t", **{"from": "disk"}))
    '3 instructions, 1.00 ms, t, from the disk'
    """
    text = (
        f"{event['instructions']} instructions, {event['ms']:.2f} ms, {event['tier']}, "
        f"from the {event['from']}"
    )
    return f"{text}, failed: {event['failure']}" if event.get("failure") else text


def _call_lines(rows: list[dict[str, Any]]) -> list[str]:
    def show(row: dict[str, Any]) -> str:
        text = f"{row['us'] / row['count']:.1f} us each, {row['op']} at {row['line']}"
        if row["at_once"]:
            text += ", when it was called"
        return text + (f", in {row['blocks']} blocks" if row["blocks"] else "")

    on_host = [row for row in rows if row["fallback"]]
    library = [row for row in rows if not row["fallback"]]
    return _rows("ops that ran on the host", on_host, show) + _rows(
        "calls of PyTorch's CPU kernels for ops of the device", library, show
    )


class CapturedKernel:
    """One kernel of a captured window.

    `ops` names its ops, `is_fused` says whether it was made of pointwise code, `numel` is
    how many elements that runs over, `code` the code as text.

    >>> CapturedKernel({"ops": "aten::sum", "is_fused": False, "numel": 0, "code": ""},
    ...                None, 0).llvm_ir
    ''
    """

    def __init__(self, row: dict[str, Any], handle: Any, index: int) -> None:
        self.ops: str = row["ops"]
        self.is_fused: bool = row["is_fused"]
        self.numel: int = row["numel"]
        self.code: str = row["code"]
        self.index = index
        self._handle = handle

    @property
    def llvm_ir(self) -> str:
        """The kernel as the compiler's input; empty for what is not fused.

        >>> CapturedKernel.llvm_ir.fget is not None
        True
        """
        return self._text(is_assembly=False)

    @property
    def assembly(self) -> str:
        """The machine code of the compiled tier; empty for what is not fused.

        >>> CapturedKernel.assembly.fget is not None
        True
        """
        return self._text(is_assembly=True)

    def _text(self, is_assembly: bool) -> str:
        if not self.is_fused:
            return ""
        return _C._kernel_text(self._handle, self.index, is_assembly)


class CapturedWindow:
    """A window that ran: its recorded ops, plan and kernels, and why it ended.

    >>> with torch.neuron.capture_windows() as windows:
    ...     _ = (torch.ones(4, device="neuron") + 1).tolist()
    >>> windows[-1].kernels[-1].is_fused
    True
    """

    def __init__(self, row: dict[str, Any], end: dict[str, Any]) -> None:
        self.device: int = row["device"]
        self.stream: int = row["stream"]
        self.number: int = row["window"]
        self.reason: str = end.get("reason", "")
        self.line: str = end.get("line", "")
        self.lines: list[str] = row["lines"]
        self.plan: str = row["plan"]
        self.kernels = [
            CapturedKernel(kernel, row["handle"], i)
            for i, kernel in enumerate(row["kernels"])
        ]
        self._ir: str = row["ir"]

    @property
    def ir(self) -> str:
        """The recorded ops as text, each with its Python line.

        >>> CapturedWindow.ir.fget is not None
        True
        """
        ops = self._ir.splitlines()
        width = min(max(map(len, ops), default=0), _WIDTH_OF_OPS)
        return "".join(
            f"{op:{width}}  # {line.splitlines()[0]}\n"
            for op, line in zip(ops, self.lines, strict=True)
        )

    @property
    def llvm_ir(self) -> str:
        """LLVM IR of the fused kernels; kernels of one code are shown once.

        >>> CapturedWindow.llvm_ir.fget is not None
        True
        """
        return self._texts(lambda kernel: kernel.llvm_ir, ";")

    @property
    def assembly(self) -> str:
        """Assembly of the fused kernels; kernels of one code are shown once.

        >>> CapturedWindow.assembly.fget is not None
        True
        """
        return self._texts(lambda kernel: kernel.assembly, "#")

    def _texts(self, text_of: Callable[[CapturedKernel], str], comment: str) -> str:
        by_code: dict[str, list[CapturedKernel]] = defaultdict(list)
        for kernel in self.kernels:
            if kernel.is_fused:
                by_code[kernel.code].append(kernel)
        out = []
        for kernels in by_code.values():
            names = ", ".join(str(kernel.index) for kernel in kernels)
            head = f"{comment} kernel {names}: {kernels[0].ops}\n"
            out.append(head + text_of(kernels[0]))
        return "\n".join(out)

    def __str__(self) -> str:
        return (
            f"window {self.number} of stream {self.stream}, neuron:{self.device}, "
            f"ended by {self.reason} at {self.line}\n{self.ir}{self.plan}"
        )


class capture_windows:
    """Context whose value is a list, filled at its end: every window that ran in it.

    Ends open windows and runs what is pending when it begins and when it ends.

    >>> with torch.neuron.capture_windows() as windows:
    ...     _ = torch.ones(4, device="neuron").exp().tolist()
    >>> "aten::exp" in windows[-1].ir
    True
    """

    def __enter__(self) -> list[CapturedWindow]:
        _C.drain()
        self._reader = _C.JournalReader(["windows", "capture"])
        self._windows: list[CapturedWindow] = []
        return self._windows

    def __exit__(self, *_: object) -> None:
        _C.drain()
        entries = self._reader.take()
        self._reader.close()
        place = ("device", "stream", "window")
        ends = {
            tuple(entry[key] for key in place): entry
            for entry in entries
            if entry["event"] == "window"
        }
        for entry in entries:
            if entry["event"] == "captured":
                end = ends.get(tuple(entry[key] for key in place), {})
                self._windows.append(CapturedWindow(entry, end))
