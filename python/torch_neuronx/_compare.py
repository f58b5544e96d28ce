"""`compare`: a function run in plain and in adaptive eager, op by op, bit by bit."""

import copy
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _C
from ._modes import adaptive_eager
from ._random import get_rng_state_all, set_rng_state_all

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Difference:
    """One element that is not the same: of which op (or result), and both values.

    >>> Difference("aten.mul.Tensor", 3, 0, "a.py:7", (1, 2), 0.5, 0.25).element
    (1, 2)
    """

    op: str
    op_index: int
    output: int
    line: str
    element: tuple[int, ...]
    plain: Any
    adaptive: Any

    def __str__(self) -> str:
        return (
            f"{self.op} (op {self.op_index}, output {self.output}) at {self.line}: "
            f"element {list(self.element)} is {self.plain!r} in plain eager and "
            f"{self.adaptive!r} in adaptive eager"
        )


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: `difference` is None when all bits were the same.

    >>> bool(Comparison(3, None))
    True
    """

    num_ops: int
    difference: Difference | None

    def __bool__(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is None:
            return f"the same bits in {self.num_ops} ops and in the results"
        return f"first difference: {self.difference}"


def compare(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Comparison:
    """Runs `fn(*args, **kwargs)` in plain and in adaptive eager and compares every bit.

    Each run gets deep copies of the arguments, and of `fn` if it is a module, and the
    same state of the random generators, which are then as they were. Whatever else `fn`
    changes is not put back. NaNs are equal. Two runs are free; then the results, the
    arguments and their gradients are compared. In two further runs the outputs of every
    op are copied, which takes memory for all of them, and compared.

    >>> x = torch.linspace(0, 1, 64, device="neuron")
    >>> print(torch_neuronx.compare(lambda x: (x.exp() * 2 + 1).sum(), x))
    the same bits in 4 ops and in the results
    """
    states = torch.get_rng_state(), get_rng_state_all()

    def run(is_adaptive: bool, mode: "_OpOutputs | None") -> list[torch.Tensor]:
        torch.set_rng_state(states[0])
        set_rng_state_all(states[1])
        call, positional, named = copy.deepcopy(
            (fn if isinstance(fn, torch.nn.Module) else None, args, kwargs)
        )
        call = fn if call is None else call
        _C.drain()
        with adaptive_eager(enabled=is_adaptive):
            if mode is None:
                result = call(*positional, **named)
            else:
                with mode:
                    result = call(*positional, **named)
            torch.neuron.synchronize()
        seen = _tensors((result, positional, named, call))
        return [tensor.detach().cpu() for tensor in seen]

    try:
        free = run(False, None), run(True, None)
        plain, adaptive = _OpOutputs(), _OpOutputs()
        run(False, plain)
        run(True, adaptive)
    finally:
        torch.set_rng_state(states[0])
        set_rng_state_all(states[1])
    num_ops = len(plain.ops)
    difference = _first_of_ops(plain, adaptive)
    if difference is None:
        difference = _first_of_results(free[0], free[1], num_ops)
    return Comparison(num_ops, difference)


class _OpOutputs(TorchDispatchMode):
    """Keeps name, line and copies of the outputs of every op."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[tuple[str, str, list[torch.Tensor]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        outputs = [
            tensor.detach().clone()
            for tensor in _tensors(result)
            if tensor.device.type == "neuron" and not _is_uninitialised(func)
        ]
        self.ops.append((str(func), _user_line(), outputs))
        return result


def _is_uninitialised(func: Any) -> bool:
    return "empty" in func.__name__


def _user_line() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if f"{os.sep}torch{os.sep}" not in file and "torch_neuronx" not in file:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in a nest, and the gradients of those that have one."""
    if isinstance(value, torch.Tensor):
        yield value
        if value.is_leaf and value.grad is not None:
            yield value.grad
    elif isinstance(value, torch.nn.Module):
        for tensor in (*value.parameters(), *value.buffers()):
            yield from _tensors(tensor)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _first_of_ops(plain: _OpOutputs, adaptive: _OpOutputs) -> Difference | None:
    pairs = zip(plain.ops, adaptive.ops, strict=False)
    for index, ((name, line, mine), (other, _, theirs)) in enumerate(pairs):
        if name != other or len(mine) != len(theirs):
            return Difference(name, index, 0, line, (), name, other)
        for output, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            if (found := _first_element(a.cpu(), b.cpu())) is not None:
                return Difference(name, index, output, line, *found)
    if len(plain.ops) != len(adaptive.ops):
        count = min(len(plain.ops), len(adaptive.ops))
        return Difference(
            "the number of ops", count, 0, "", (), len(plain.ops), len(adaptive.ops)
        )
    return None


def _first_of_results(
    plain: list[torch.Tensor], adaptive: list[torch.Tensor], num_ops: int
) -> Difference | None:
    for output, (a, b) in enumerate(zip(plain, adaptive, strict=True)):
        if (found := _first_element(a, b)) is not None:
            name = "the results, only when no op is watched"
            return Difference(name, num_ops, output, "the end", *found)
    return None


def _first_element(
    a: torch.Tensor, b: torch.Tensor
) -> tuple[tuple[int, ...], Any, Any] | None:
    """Index and values of the first element whose bits differ."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return (), (tuple(a.shape), a.dtype), (tuple(b.shape), b.dtype)
    a, b = a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if a.is_floating_point():
        bits = _INTEGERS[a.element_size()]
        differs = a.contiguous().view(bits) != b.contiguous().view(bits)
        differs &= ~(a.isnan() & b.isnan())
    else:
        differs = a != b
    if not differs.any():
        return None
    element = tuple(differs.nonzero()[0].tolist())
    return element, a[element].item(), b[element].item()
