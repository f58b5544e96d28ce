"""The live log: `NEURON_LOG=windows,fusion,cache,compile,fallback` through `logging`.

The engine's threads write into a journal and never take the GIL. A helper thread named
`neuron-log` sleeps in C++ until there is something, takes it away and gives it to the
loggers `torch_neuronx.windows`, `torch_neuronx.fusion` and so on: level INFO, what is
frequent (cache hits, library calls) DEBUG. Lines of Python become text on that thread.
"""

import atexit
import logging
import os
import threading
from collections.abc import Iterable
from typing import Any

from . import _C
from ._explain import describe_compile

TOPICS = ("windows", "fusion", "cache", "compile", "fallback")

_parent = logging.getLogger("torch_neuronx")
_lock = threading.RLock()
_reader: Any = None
_thread: threading.Thread | None = None
_topics: tuple[str, ...] = ()


class _DefaultHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints to stderr as long as the program has no handler of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.root.handlers:
            super().emit(record)


def set_log(topics: str | Iterable[str] = ()) -> None:
    """Logs these topics from now on, and no others; "all" means all, none is off.

    >>> torch.neuron.set_log("windows,cache"); torch.neuron.get_log()
    ('windows', 'cache')
    >>> torch.neuron.set_log(); torch.neuron.get_log()
    ()
    """
    global _topics
    names = topics.split(",") if isinstance(topics, str) else list(topics)
    names = list(TOPICS) if names == ["all"] else [name for name in names if name]
    if unknown := [name for name in names if name not in TOPICS]:
        raise ValueError(
            f"[log] no such topic: got {unknown[0]!r}, expected all or one of "
            f"{', '.join(TOPICS)}"
        )
    _close()
    _topics = tuple(names)
    if not names:
        return
    if not _parent.handlers:
        handler = _DefaultHandler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        _parent.addHandler(handler)
        atexit.register(_close)
        os.register_at_fork(after_in_child=_start_again)
    if _parent.level == logging.NOTSET:
        _parent.setLevel(logging.INFO)
    _start()


def _start() -> None:
    global _reader, _thread
    _reader = _C.JournalReader(list(_topics))
    _thread = threading.Thread(
        target=_deliver_until_closed, args=(_reader,), name="neuron-log", daemon=True
    )
    _thread.start()


def _start_again() -> None:
    """In a forked child, where the helper thread is gone."""
    if _reader is not None and not _C.in_bad_fork():
        _close()
        _start()


def get_log() -> tuple[str, ...]:
    """The topics that are logged.

    >>> isinstance(torch.neuron.get_log(), tuple)
    True
    """
    return _topics


def flush_log() -> None:
    """Runs what is pending and delivers what was written, on the calling thread.

    >>> torch.neuron.flush_log()
    """
    reader = _reader
    if reader is not None:
        _C.drain()
        _deliver(reader)


def _close() -> None:
    global _reader, _thread
    if _C.in_bad_fork() or _reader is None:
        return
    reader, thread = _reader, _thread
    _reader = _thread = None
    reader.close()
    if thread is not None:
        thread.join()


def _deliver_until_closed(reader: Any) -> None:
    while reader.wait():
        _deliver(reader)


def _deliver(reader: Any) -> None:
    with _lock:  # entries stay in order
        for entry in reader.take():
            level, text = describe(entry)
            logging.getLogger(f"torch_neuronx.{entry['topic']}").log(level, text)


def describe(entry: dict[str, Any]) -> tuple[int, str]:
    """Level and text of one entry of the journal.

    >>> describe({"topic": "cache", "event": "hit", "cache": "disk"})
    (10, 'hit in the cache of disk')
    """
    event = entry["event"]
    if event in ("compiled", "failed"):
        return logging.INFO, f"{event}: {describe_compile(entry)}"
    if event == "hit":
        return logging.DEBUG, f"hit in the cache of {entry['cache']}"
    if event == "call":
        level = logging.INFO if entry["fallback"] else logging.DEBUG
    else:
        level = logging.INFO
    return level, _TEXTS[event].format(**entry)


_TEXTS = {
    "window": "window {window} of stream {stream} on neuron:{device} ended after {ops} "
    "ops by {reason} at {line}",
    "plan": "window {window} of stream {stream}: {ops} ops are {kernels} kernels, "
    "{left_out} ops left out",
    "group": "one kernel of {num_ops} ops over {elements} elements, from {line}: {ops}",
    "apart": "{producer} -> {consumer} at {line} not fused: {reason}",
    "miss": "miss in the cache of {cache}: {difference}",
    "call": "{op} ran in {us:.1f} us on the host, recorded at {line}",
}
