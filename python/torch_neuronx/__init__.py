"""The `neuron` device of PyTorch: `import torch` is enough, `torch.neuron` is the module.

>>> torch.ones(2, device="neuron").add(1).tolist()
[2.0, 2.0]
"""

import sys
import warnings


def _autoload() -> None:
    """Entry point of group `torch.backends`: torch calls it at the end of its import.

    The import of this package has done the work already. A failure is reported here,
    once, and forgotten: torch works without us, and `import torch_neuronx` raises it.

    >>> torch_neuronx._autoload()
    """
    if _failure is None:
        return
    _warn(f"The device 'neuron' is not available: {type(_failure).__name__}: {_failure}")
    prefix = __name__ + "."
    for name in list(sys.modules):
        # The extension registers itself with torch when it is loaded: once is enough.
        if name == __name__ or (name.startswith(prefix) and name != prefix + "_C"):
            del sys.modules[name]


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # warnings are errors here, but `import torch` must not fail
        print(text, file=sys.stderr)


def _is_loaded_by_torch() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and getattr(torch.__spec__, "_initializing", False)


_failure: Exception | None = None
_loaded_by_torch = _is_loaded_by_torch()

try:
    # When the user imports this package first, this line imports torch, and torch calls
    # `_autoload` while we are here: it has nothing to do then.
    import torch  # noqa: F401

    from . import _C, _registration
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
        current_device,
        device,
        device_count,
        device_of,
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
        set_adaptive_eager,
        set_launch_blocking,
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

    _registration.register()
    for text in _C.knob_warnings() + _registration.apply_knobs():
        _warn(text)
except Exception as failure:
    if not _loaded_by_torch:
        raise
    _failure = failure

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
    "adaptive_eager",
    "capture_windows",
    "clear_op_tracking",
    "clock_figures",
    "compare",
    "current_device",
    "current_stream",
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
