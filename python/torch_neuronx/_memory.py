"""Memory statistics, in CUDA's names; all of them read the caching allocator of a device.

The host runs ahead of the device: call `synchronize` before reading.
"""

from collections import OrderedDict
from typing import Any

import torch

from . import _C
from ._device import _DeviceLike, _get_device_index


def memory_stats(device: _DeviceLike = None) -> "OrderedDict[str, Any]":
    """All statistics under CUDA's flat keys; empty until the device is started.

    >>> isinstance(torch.neuron.memory_stats(), dict)
    True
    """
    stats = torch.accelerator.memory_stats(device)
    if stats:
        stats["allocation_requests"] = stats["allocation.all.allocated"]
        stats["num_tensor_frees"] = stats["allocation.all.freed"]
    return stats


def memory_allocated(device: _DeviceLike = None) -> int:
    """Bytes that live tensors hold.

    >>> torch.neuron.memory_allocated() >= 0
    True
    """
    return torch.accelerator.memory_allocated(device)


def max_memory_allocated(device: _DeviceLike = None) -> int:
    """Peak of `memory_allocated` since the start or the last `reset_peak_memory_stats`.

    >>> torch.neuron.max_memory_allocated() >= torch.neuron.memory_allocated()
    True
    """
    return torch.accelerator.max_memory_allocated(device)


def memory_reserved(device: _DeviceLike = None) -> int:
    """Bytes that the allocator holds, those it keeps for reuse included.

    >>> torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()
    True
    """
    return torch.accelerator.memory_reserved(device)


def max_memory_reserved(device: _DeviceLike = None) -> int:
    """Peak of `memory_reserved` since the start or the last `reset_peak_memory_stats`.

    >>> torch.neuron.max_memory_reserved() >= torch.neuron.memory_reserved()
    True
    """
    return torch.accelerator.max_memory_reserved(device)


def reset_peak_memory_stats(device: _DeviceLike = None) -> None:
    """Sets every peak to its current value.

    >>> torch.neuron.reset_peak_memory_stats()
    """
    torch.accelerator.reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: _DeviceLike = None) -> None:
    """Sets every count of allocations and frees to zero.

    >>> torch.neuron.reset_accumulated_memory_stats()
    """
    torch.accelerator.reset_accumulated_memory_stats(device)


def empty_cache() -> None:
    """Gives back what the allocator keeps for reuse.

    >>> torch.neuron.empty_cache()
    """
    torch.accelerator.empty_cache()


def mem_get_info(device: _DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of a device.

    >>> free, total = torch.neuron.mem_get_info(); free <= total
    True
    """
    return torch.accelerator.get_memory_info(device)


def record_memory_history(enabled: bool = True, device: _DeviceLike = None) -> None:
    """Notes the Python line of each allocation from now on; `False`: no longer.

    Then `memory_snapshot` and the error of running out of memory name lines. Off at
    first, when it costs nothing.

    >>> torch.neuron.record_memory_history(); x = torch.ones(4, device="neuron")
    >>> torch.neuron.record_memory_history(False)
    """
    _C.record_memory_sites(_get_device_index(device, optional=True), enabled)


def memory_snapshot(device: _DeviceLike = None) -> list[dict[str, Any]]:
    """What is alive, in the form of `torch.cuda.memory_snapshot`: one block a segment.

    A block is `active_allocated`, or `active_pending_free` while recorded work still
    uses what no tensor sees any more. `frames` has the line that made it, if
    `record_memory_history` was on by then.

    >>> x = torch.ones(1 << 20, device="neuron")
    >>> max(s["blocks"][0]["requested_size"] for s in torch.neuron.memory_snapshot())
    4194304
    """
    index = _get_device_index(device, optional=True)
    return [_segment(index, *row) for row in _C.live_memory(index)]


def _segment(
    index: int, address: int, nbytes: int, charged: int, is_alive: bool, line: str
) -> dict[str, Any]:
    filename, _, number = line.partition("\n")[0].rpartition(":")
    frames = [{"filename": filename, "line": int(number), "name": ""}] if line else []
    block = {
        "address": address,
        "size": charged,
        "requested_size": nbytes,
        "state": "active_allocated" if is_alive else "active_pending_free",
        "frames": frames,
    }
    return {
        "device": index,
        "address": address,
        "total_size": charged,
        "allocated_size": charged if is_alive else 0,
        "active_size": charged,
        "stream": 0,
        "segment_type": "large" if charged >= _LARGE else "small",
        "blocks": [block],
    }


_LARGE = 1 << 20  # bytes; the pools of the real allocator
_ROWS = (
    ("Allocated bytes", "allocated_bytes"),
    ("Active bytes", "active_bytes"),
    ("Requested bytes", "requested_bytes"),
    ("Reserved bytes", "reserved_bytes"),
    ("Allocations", "allocation"),
    ("Active allocations", "active"),
    ("Reserved segments", "segment"),
)
_POOLS = (("", "all"), ("  large pool", "large_pool"), ("  small pool", "small_pool"))


def memory_summary(device: _DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a table.

    >>> "Allocated bytes" in torch.neuron.memory_summary()
    True
    """
    stats = memory_stats(device)
    columns = ("current", "peak", "allocated", "freed")
    lines = ["neuron memory       " + "".join(f"{column:>16}" for column in columns)]
    for title, key in _ROWS:
        for pool_title, pool in _POOLS[:1] if abbreviated else _POOLS:
            cells = (stats.get(f"{key}.{pool}.{column}", 0) for column in columns)
            row = "".join(f"{cell:>16,}" for cell in cells)
            lines.append(f"{pool_title or title:20}{row}")
    ooms, retries = stats.get("num_ooms", 0), stats.get("num_alloc_retries", 0)
    lines.append(f"out of memory {ooms} times, allocations retried {retries} times")
    return "\n".join(lines)
