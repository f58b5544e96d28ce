"""Modes of execution: adaptive or plain eager, launch-blocking, lean autograd."""

from contextlib import ContextDecorator

from . import _C


def set_adaptive_eager(enabled: bool) -> None:
    """Turns adaptive eager on or off, for all threads, from the next op on.

    >>> torch.neuron.set_adaptive_eager(torch.neuron.is_adaptive_eager())
    """
    _C.set_adaptive_eager(enabled)


def is_adaptive_eager() -> bool:
    """Whether adaptive eager is on (at start: `NEURON_ADAPTIVE_EAGER`).

    >>> torch.neuron.is_adaptive_eager() in (True, False)
    True
    """
    return _C.is_adaptive_eager()


class adaptive_eager(ContextDecorator):
    """Context or decorator with adaptive eager on (or off), and as before afterwards.

    >>> with torch.neuron.adaptive_eager(): torch.neuron.is_adaptive_eager()
    True
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> "adaptive_eager":
        self._before.append(_C.is_adaptive_eager())
        _C.set_adaptive_eager(self.enabled)
        return self

    def __exit__(self, *_: object) -> None:
        _C.set_adaptive_eager(self._before.pop())


def set_launch_blocking(enabled: bool) -> None:
    """Makes every op wait for its result, so that an error is raised at its own line.

    >>> torch.neuron.set_launch_blocking(torch.neuron.is_launch_blocking())
    """
    _C.set_launch_blocking(enabled)


def is_launch_blocking() -> bool:
    """Whether every op is synchronous (at start: `NEURON_LAUNCH_BLOCKING`).

    >>> torch.neuron.is_launch_blocking() in (True, False)
    True
    """
    return _C.is_launch_blocking()


def set_lean_autograd(enabled: bool) -> None:
    """Lets ordinary backward passes run in a loop of our own, or all in PyTorch's engine.

    For all threads, from the next pass on. The gradients are the same bits either way.

    >>> torch.neuron.set_lean_autograd(torch.neuron.is_lean_autograd())
    """
    _C.set_lean_autograd(enabled)


def is_lean_autograd() -> bool:
    """Whether lean autograd is on (at start: `NEURON_LEAN_AUTOGRAD`, which is 1).

    >>> torch.neuron.is_lean_autograd() in (True, False)
    True
    """
    return _C.is_lean_autograd()


_SYNC_DEBUG_MODES = ("default", "warn", "error")


def set_sync_debug_mode(mode: int | str) -> None:
    """What to do where Python waits for the device without a call of `synchronize`.

    "default" (0): nothing. "warn" (1): a warning that names the line. "error" (2): an
    exception instead of the wait. At start: `NEURON_SYNC_DEBUG_MODE`.

    >>> torch.neuron.set_sync_debug_mode("warn"); torch.neuron.get_sync_debug_mode()
    1
    >>> torch.neuron.set_sync_debug_mode(0)
    """
    if isinstance(mode, str) and mode in _SYNC_DEBUG_MODES:
        mode = _SYNC_DEBUG_MODES.index(mode)
    if mode not in (0, 1, 2):
        raise ValueError(
            f"[set_sync_debug_mode] no such mode: got {mode!r}, expected one of "
            f"{', '.join(map(repr, _SYNC_DEBUG_MODES))}, 0, 1, 2"
        )
    _C.set_sync_debug_mode(mode)


def get_sync_debug_mode() -> int:
    """The mode as a number: 0 default, 1 warn, 2 error.

    >>> torch.neuron.get_sync_debug_mode()
    0
    """
    return _C.sync_debug_mode()


class sync_debug_mode(ContextDecorator):
    """Sets the mode at once; as a context or decorator, until its end.

    >>> with torch.neuron.sync_debug_mode("error"): torch.neuron.get_sync_debug_mode()
    2
    """

    def __init__(self, mode: int | str) -> None:
        self._before = _C.sync_debug_mode()
        self.mode = mode
        set_sync_debug_mode(mode)

    def __enter__(self) -> "sync_debug_mode":
        set_sync_debug_mode(self.mode)
        return self

    def __exit__(self, *_: object) -> None:
        set_sync_debug_mode(self._before)
