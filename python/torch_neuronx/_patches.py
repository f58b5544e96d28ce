"""What has to be changed in PyTorch 2.13 itself, each with its reason."""

import atexit
import sys
import threading
import time
from enum import IntEnum
from functools import wraps

import torch
import torch.nn.attention.flex_attention as flex_attention
from torch.autograd import Variable
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType

from . import _C

# What the device threads of the autograd engine need to drop their last graph.
_GRACE_SECONDS = 0.02


def apply() -> None:
    """Applies every patch; called once, by the registration.

    >>> torch.ones(2, device="neuron").__dlpack_device__()[1]
    0
    """
    _patch_dlpack_device()
    _patch_flex_attention()
    _calm_autograd_threads()
    _install_lean_backward()


def _patch_dlpack_device() -> None:
    """`Tensor.__dlpack_device__` knows "privateuse1", but not a renamed backend."""
    original = torch.Tensor.__dlpack_device__

    @wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> tuple[IntEnum, int]:
        if has_torch_function_unary(self) or self.device.type != "neuron":
            return original(self)
        return DLDeviceType.kDLExtDev, self.device.index

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]


def _patch_flex_attention() -> None:
    """FlexAttention has a list of devices; its dense form works on any, backward too."""
    original = flex_attention._validate_device

    @wraps(original)
    def _validate_device(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        if query.device.type != "neuron":
            original(query, key, value)

    flex_attention._validate_device = _validate_device


def _calm_autograd_threads() -> None:
    """Backward runs on the calling thread, and exit waits for the engine's own threads.

    A device thread that drops its last graph while the interpreter ends aborts the
    process. With one device a process a second thread gains nothing: a backward of one op
    is faster without. Other Python threads keep PyTorch's default, hence the wait.
    """
    if threading.current_thread() is threading.main_thread():
        torch.autograd.set_multithreading_enabled(False)
    atexit.register(_shut_down)


class _Engine(torch._C._ImperativeEngine):
    """PyTorch's engine as Python sees it, but with a way to the lean backward loop."""

    run_backward = _C.run_backward


def _install_lean_backward() -> None:
    """`backward()` and `grad()` of the device's tensors run in a loop of our own.

    PyTorch offers no other place: the stub for engines in C++ is not asked by Python.
    `_C.run_backward` passes every call that is not its own to the engine found here.
    """
    _C.set_original_engine(Variable._execution_engine)
    Variable._execution_engine = _Engine()


def _shut_down() -> None:
    if _C.in_bad_fork() or not _C.is_initialized():
        return
    time.sleep(_GRACE_SECONDS)
    _C.shutdown()
    for text in _C.take_notices():  # nobody has read a value since
        print(text, file=sys.stderr)
