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
