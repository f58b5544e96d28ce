"""How each mode calls an op; every function returns what there is to compare."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves, tree_map

from transfer import Call, move_tensor, require_strided

Runner = Callable[[OpInfo, Call, str], Any]

#: What an `out=` tensor holds before the call, so that an unwritten element shows.
GARBAGE = 77


#: Factories whose samples do not say where: without `device=` they make CPU tensors.
FACTORIES = {"arange", "linspace", "logspace"}


class NothingToCompare(Exception):
    """The mode says nothing about this sample."""


def call_op(op: OpInfo, call: Call, device: str, **more: Any) -> Any:
    """Calls the op; factories are told the device."""
    args = call.args
    if op.name in FACTORIES:
        more["device"] = device
    if op.name == "tensor_split":  # takes its sections as a tensor of CPU, everywhere
        args = tree_map(
            lambda a: a.cpu() if isinstance(a, torch.Tensor) else a, call.args
        )
    return op(call.input, *args, **{**call.kwargs, **more})


def run_forward(op: OpInfo, call: Call, device: str) -> Any:
    """The result, and the arguments after the call (some ops update them)."""
    result = call_op(op, call, device)
    return result, call.tensors()


def run_inplace(op: OpInfo, call: Call, device: str) -> Any:
    """The updated input; the call must return that very tensor."""
    target = call.input
    result = op.inplace_variant(target, *call.args, **call.kwargs)
    assert result is target, "the in-place variant returned another tensor"
    return target


@dataclasses.dataclass(eq=False)
class KeptStrides:
    """Whether `out=` kept its strides. Keeping them is always right; some of CPU's own
    kernels for matrices do not, and only there the device need not."""

    kept: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeptStrides) and (self.kept or not other.kept)


def make_outs(like: list[torch.Tensor], kind: str, device: str) -> list[torch.Tensor]:
    """Tensors for `out=`: of the right shape, empty, or with gaps between elements."""
    outs = []
    for tensor in like:
        if kind == "right":
            out = torch.full_like(tensor, GARBAGE, device="cpu")
        elif kind == "empty":
            out = torch.empty(0, dtype=tensor.dtype)
        else:
            sizes = [*tensor.shape, 2]
            out = torch.full(sizes, GARBAGE, dtype=tensor.dtype)[..., 0]
        outs.append(move_tensor(out, device))
    return outs


def run_out(op: OpInfo, call: Call, device: str) -> Any:
    """Three kinds of `out=`: right shape, empty (resized by the op), not contiguous."""
    expected = call_op(op, call, device)
    if isinstance(expected, torch.Tensor):
        like, unpack = [expected], True
    elif isinstance(expected, (tuple, list)) and expected:
        like, unpack = list(expected), False
    else:
        raise NothingToCompare
    if not all(isinstance(t, torch.Tensor) for t in like):
        raise NothingToCompare
    found = []
    for kind in ("right", "empty", "gaps"):
        outs = make_outs([t.detach() for t in like], kind, device)
        out = outs[0] if unpack else tuple(outs)
        before = [t.stride() for t in outs]
        call_op(op, call, device, out=out)
        if kind == "gaps":
            kept = [t.stride() == s for t, s in zip(outs, before, strict=True)]
            found.append(KeptStrides(all(kept)))
        found.append(outs)
    return found


def cotangent(like: torch.Tensor, index: int, device: str) -> torch.Tensor:
    """A repeatable gradient for an output, the same on every device."""
    generator = torch.Generator().manual_seed(index + 1)
    real = torch.rand(like.shape, generator=generator, dtype=torch.float64) + 0.5
    if like.dtype.is_complex:
        imag = torch.rand(like.shape, generator=generator, dtype=torch.float64)
        real = torch.complex(real, imag)
    return real.to(like.dtype).to(device)


def run_gradient(op: OpInfo, call: Call, device: str) -> Any:
    """The gradients of all inputs that want one."""
    result = call.process(call_op(op, call, device))
    require_strided(result)
    outputs = [
        t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    inputs = [t for t in call.tensors() if t.requires_grad]
    if not outputs or not inputs:
        raise NothingToCompare
    seeds = [cotangent(t, i, device) for i, t in enumerate(outputs)]
    return torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)


RUNNERS: dict[str, Runner] = {
    "forward": run_forward,
    "noncontiguous": run_forward,
    "inplace": run_inplace,
    "out": run_out,
    "gradient": run_gradient,
}
