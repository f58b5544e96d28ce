"""Streams and events: PyTorch's own objects, made with CUDA's argument order.

`torch.Event.elapsed_time` and `torch.Stream.record_event` refuse subclasses, so `Stream`
and `Event` make plain `torch.Stream` and `torch.Event` objects on a neuron device, and
`isinstance` recognises those.
"""

from typing import Any

import torch

from . import _C
from ._device import _DeviceLike, _get_device_index, current_device, set_device


class _OnNeuron(type):
    """Metaclass: an instance is an object of PyTorch's class on a neuron device."""

    def __instancecheck__(cls, instance: Any) -> bool:
        made_here = issubclass(type(instance), cls.__mro__[1])
        return made_here and instance.device.type == "neuron"


class Stream(torch.Stream, metaclass=_OnNeuron):
    """A queue whose work runs in order; streams are ordered only by events and waits.

    >>> s = torch.neuron.Stream(priority=-1); s.query()
    True
    """

    def __new__(
        cls, device: _DeviceLike = None, priority: int = 0, **identity: int
    ) -> Any:
        if identity:  # stream_id, device_index and device_type of an existing stream
            return torch.Stream(priority=priority, **identity)
        return torch.Stream(torch.device("neuron", _index(device)), priority=priority)


class Event(torch.Event, metaclass=_OnNeuron):
    """A mark in a stream that other streams and the host can wait for.

    >>> e = torch.neuron.Event(enable_timing=True); e.record(); e.synchronize()
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        device: _DeviceLike = None,
    ) -> Any:
        where = torch.device("neuron", _index(device))
        return torch.Event(where, enable_timing=enable_timing, blocking=blocking)


class StreamContext:
    """Context in which a stream is current; `None`: no change.

    >>> with StreamContext(torch.neuron.default_stream()): torch.neuron.current_device()
    0
    """

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[int, torch.Stream]] = []

    def __enter__(self) -> "StreamContext":
        if self.stream is not None:
            there = torch.accelerator.current_stream(self.stream.device)
            self._before.append((current_device(), there))
            torch.accelerator.set_stream(self.stream)
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            device, there = self._before.pop()
            torch.accelerator.set_stream(there)
            set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context in which `stream` is current; contexts nest.

    >>> with torch.neuron.stream(torch.neuron.Stream()): torch.neuron.synchronize()
    """
    return StreamContext(stream)


def current_stream(device: _DeviceLike = None) -> torch.Stream:
    """This thread's current stream on a device.

    >>> torch.neuron.current_stream() == torch.neuron.default_stream()
    True
    """
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: _DeviceLike = None) -> torch.Stream:
    """The stream of a device that is current unless another one was set.

    >>> torch.neuron.default_stream().device
    device(type='neuron', index=0)
    """
    stream_id, device_index, device_type = _C.default_stream(_index(device))
    return torch.Stream(
        stream_id=stream_id, device_index=device_index, device_type=device_type
    )


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream this thread's current one, and its device current; `None`: nothing.

    >>> torch.neuron.set_stream(torch.neuron.default_stream())
    """
    if stream is not None:
        torch.accelerator.set_stream(stream)


def _index(device: _DeviceLike) -> int:
    return _get_device_index(device, optional=True)
