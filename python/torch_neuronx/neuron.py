"""What `torch.neuron` is: every name that users, PyTorch and frameworks look up there.

>>> torch.neuron.is_available()
True
"""

from typing import Any

import torch
from torch import _utils as _utils  # `torch.load` reads torch.neuron._utils

from . import _C
from ._bisect import (
    get_denied_ops,
    get_flush_every,
    get_max_fused_ops,
    set_denied_ops,
    set_flush_every,
    set_max_fused_ops,
)
from ._clock import (
    StepTime,
    clock_figures,
    device_time,
    dry_run,
    elapsed_wall_time,
    time_step,
)
from ._compare import (
    Comparison,
    Difference,
    compare,
)
from ._device import (
    DeviceProperties,
    _get_device_index,
    _is_in_bad_fork,
    _lazy_init,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from ._explain import (
    CapturedKernel,
    CapturedWindow,
    Explanation,
    capture_windows,
    explain,
)
from ._log import (
    flush_log,
    get_log,
    set_log,
)
from ._memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    record_memory_history,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from ._modes import (
    adaptive_eager,
    get_sync_debug_mode,
    is_adaptive_eager,
    is_launch_blocking,
    is_lean_autograd,
    set_adaptive_eager,
    set_launch_blocking,
    set_lean_autograd,
    set_sync_debug_mode,
    sync_debug_mode,
)
from ._random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._report import (
    WindowReport,
    clear_op_tracking,
    compile_report,
    get_executed_ops,
    get_fallback_ops,
    reset_window_report,
    window_report,
)
from ._streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "CapturedKernel",
    "CapturedWindow",
    "Comparison",
    "DeviceProperties",
    "Difference",
    "Event",
    "Explanation",
    "StepTime",
    "Stream",
    "StreamContext",
    "WindowReport",
    "_get_device_index",
    "_is_in_bad_fork",
    "_lazy_init",
    "adaptive_eager",
    "capture_windows",
    "clear_op_tracking",
    "clock_figures",
    "compare",
    "compile_report",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "device_time",
    "dry_run",
    "elapsed_wall_time",
    "empty_cache",
    "explain",
    "flush_log",
    "get_amp_supported_dtype",
    "get_denied_ops",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_executed_ops",
    "get_fallback_ops",
    "get_flush_every",
    "get_log",
    "get_max_fused_ops",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "init",
    "initial_seed",
    "is_adaptive_eager",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_launch_blocking",
    "is_lean_autograd",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "record_memory_history",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "reset_window_report",
    "seed",
    "seed_all",
    "set_adaptive_eager",
    "set_denied_ops",
    "set_device",
    "set_flush_every",
    "set_launch_blocking",
    "set_lean_autograd",
    "set_log",
    "set_max_fused_ops",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "sync_debug_mode",
    "synchronize",
    "time_step",
    "window_report",
]

default_generators: tuple[torch.Generator, ...]


def __getattr__(name: str) -> Any:
    """The attributes that are state: `_initialized` and `default_generators`.

    >>> torch.neuron.default_generators[0].device
    device(type='neuron', index=0)
    """
    if name == "_initialized":
        return _C.is_initialized()
    if name == "default_generators":
        return tuple(_C.default_generator(i) for i in range(_C.device_count()))
    raise AttributeError(f"module 'torch.neuron' has no attribute {name!r}")
