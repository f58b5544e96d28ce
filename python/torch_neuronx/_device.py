"""Devices: how many, which one is current, what they are."""

from dataclasses import dataclass

import torch

from . import _C

_DeviceLike = torch.device | str | int | None

_CHIPS = {"trn2": "AWS Trainium2", "trn3": "AWS Trainium3"}


@dataclass(frozen=True)
class DeviceProperties:
    """What `get_device_properties` returns.

    >>> DeviceProperties("trn2", 1 << 30).name
    'trn2'
    """

    name: str
    total_memory: int


def is_available() -> bool:
    """Whether there is a device; starts nothing, so it is safe before a fork.

    >>> torch.neuron.is_available()
    True
    """
    return _C.device_count() > 0


def device_count() -> int:
    """Number of devices of this process (`NEURON_RT_NUM_CORES`); starts nothing.

    >>> torch.neuron.device_count() >= 1
    True
    """
    return _C.device_count()


def is_initialized() -> bool:
    """Whether the device has been started in this process.

    >>> torch.neuron.init(); torch.neuron.is_initialized()
    True
    """
    return _C.is_initialized()


def init() -> None:
    """Starts the device now rather than at the first use.

    >>> torch.neuron.init()
    """
    _C.init()


def _lazy_init() -> None:
    """What PyTorch calls before a first use.

    >>> torch.neuron._lazy_init()
    """
    _C.init()


def _is_in_bad_fork() -> bool:
    """Whether this is a child forked from a process that had started the device.

    >>> torch.neuron._is_in_bad_fork()
    False
    """
    return _C.in_bad_fork()


def _get_device_index(device: _DeviceLike, optional: bool = False) -> int:
    """Index of a device; without one, the current device's if `optional`, or ValueError.

    >>> torch.neuron._get_device_index("neuron:0")
    0
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "neuron":
            raise ValueError(f"Expected a neuron device, but got: {device}")
        device = device.index
    if device is not None:
        return device
    if not optional:
        raise ValueError("Expected a device with an index or an integer, but got none")
    return current_device()


def current_device() -> int:
    """Index of this thread's current device.

    >>> torch.neuron.current_device()
    0
    """
    return torch.accelerator.current_device_index()


def set_device(device: _DeviceLike) -> None:
    """Sets this thread's current device; a negative index changes nothing.

    >>> torch.neuron.set_device(0)
    """
    index = _get_device_index(device, optional=True)
    if index >= 0:
        torch.accelerator.set_device_index(index)


class device(torch.accelerator.device_index):
    """Context in which a device is current; `None` or a negative index: no change.

    >>> with torch.neuron.device("neuron:0"): torch.neuron.current_device()
    0
    """

    def __init__(self, device: _DeviceLike) -> None:
        index = None if device is None else _get_device_index(device, optional=True)
        super().__init__(None if index is None or index < 0 else index)


class device_of(device):
    """Context in which the device of a tensor is current; no change for other tensors.

    >>> with torch.neuron.device_of(torch.ones(1)): torch.neuron.current_device()
    0
    """

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "neuron" else None)


def synchronize(device: _DeviceLike = None) -> None:
    """Waits for all work of a device and raises the earliest error stored there.

    >>> torch.neuron.synchronize()
    """
    _C.synchronize(-1 if device is None else _get_device_index(device, optional=True))


def get_device_name(device: _DeviceLike = None) -> str:
    """Name of a device.

    >>> torch.neuron.get_device_name()
    'AWS Trainium2 neuron core (simulated)'
    """
    return f"{_CHIPS[_C.target()[0]]} neuron core (simulated)"


def get_device_properties(device: _DeviceLike = None) -> DeviceProperties:
    """Kind of chip and bytes of memory of a device.

    >>> torch.neuron.get_device_properties().name
    'trn2'
    """
    index = _get_device_index(device, optional=True)
    return DeviceProperties(name=_C.target()[0], total_memory=_C.memory_total(index))


def get_device_capability(device: _DeviceLike = None) -> tuple[int, int]:
    """Version of the NeuronCore, (major, minor).

    >>> torch.neuron.get_device_capability()
    (3, 0)
    """
    return _C.target()[1], 0


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("neuron")` takes.

    >>> torch.neuron.get_amp_supported_dtype()
    [torch.bfloat16, torch.float16]
    """
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works; always.

    >>> torch.neuron.is_bf16_supported()
    True
    """
    return True
