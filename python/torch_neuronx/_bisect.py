"""Switches that make the engine do less at a time, to find out by halves what is wrong.

Numbers do not depend on any of them, but for denied ops, which PyTorch's CPU kernels run.
"""

from collections.abc import Iterable

from . import _C


def set_flush_every(num_ops: int) -> None:
    """Ends a window after so many ops; 0 for no such limit (`NEURON_FLUSH_EVERY`).

    >>> torch.neuron.set_flush_every(2); torch.neuron.get_flush_every()
    2
    >>> torch.neuron.set_flush_every(0)
    """
    _C.set_limits(_limit("set_flush_every", num_ops), _C.limits()[1])


def get_flush_every() -> int:
    """After how many ops a window ends; 0 for no such limit.

    >>> torch.neuron.get_flush_every()
    0
    """
    return _C.limits()[0]


def set_max_fused_ops(num_ops: int) -> None:
    """Lets so many ops share a kernel; 0 for no such limit (`NEURON_MAX_FUSED_OPS`).

    >>> torch.neuron.set_max_fused_ops(1); torch.neuron.get_max_fused_ops()
    1
    >>> torch.neuron.set_max_fused_ops(0)
    """
    _C.set_limits(_C.limits()[0], _limit("set_max_fused_ops", num_ops))


def get_max_fused_ops() -> int:
    """How many ops may share a kernel; 0 for no such limit.

    >>> torch.neuron.get_max_fused_ops()
    0
    """
    return _C.limits()[1]


def set_denied_ops(names: str | Iterable[str] = ()) -> None:
    """Runs these ops by PyTorch's CPU kernels, never fused (`NEURON_DENY_OPS`).

    A name has no overload and stands for the in-place and out= forms too.

    >>> torch.neuron.set_denied_ops("add,gelu"); torch.neuron.get_denied_ops()
    ['aten::add', 'aten::gelu']
    >>> torch.neuron.set_denied_ops()
    """
    listed = names.split(",") if isinstance(names, str) else list(names)
    _C.set_denied_ops([name for name in listed if name])


def get_denied_ops() -> list[str]:
    """The ops that `set_denied_ops` has named.

    >>> torch.neuron.get_denied_ops()
    []
    """
    return _C.denied_ops()


def _limit(name: str, num_ops: int) -> int:
    if not isinstance(num_ops, int) or num_ops < 0:
        raise ValueError(f"[{name}] a number of ops: got {num_ops!r}, expected 0 or more")
    return num_ops
