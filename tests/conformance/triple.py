"""What the sweep counts: triples of an op, an element type, and a way of calling it."""

import dataclasses
import zlib

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

#: The ways an op is called. `errors` has no element type of its own: OpInfo picks it.
MODES = ("forward", "noncontiguous", "inplace", "out", "gradient", "errors")

GRADIENT_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)

#: The element type written for mode `errors`.
ANY_DTYPE = "any"


@dataclasses.dataclass(frozen=True, order=True)
class Triple:
    """One line of the sweep; `op` is OpInfo's full name, `dtype` without `torch.`."""

    op: str
    dtype: str
    mode: str

    def seed(self) -> int:
        """The seed of everything random about this op and element type."""
        return zlib.crc32(f"{self.op} {self.dtype}".encode())


def ops_by_name() -> dict[str, OpInfo]:
    """All entries of `op_db` by full name, which is unique."""
    named = {op.full_name: op for op in op_db}
    assert len(named) == len(op_db), "two entries of op_db share a name"
    return named


def dtype_names(op: OpInfo) -> list[str]:
    """The element types that the op supports on CPU."""
    return sorted(str(d).removeprefix("torch.") for d in op.supported_dtypes("cpu"))


def modes_of(op: OpInfo, dtype: str) -> list[str]:
    """The modes that make sense for the op with this element type."""
    modes = ["forward", "noncontiguous"]
    if op.inplace_variant is not None:
        modes.append("inplace")
    if op.supports_out:
        modes.append("out")
    torch_dtype = getattr(torch, dtype)
    if torch_dtype in GRADIENT_DTYPES and op.supports_autograd:
        if torch_dtype in op.supported_backward_dtypes("cpu"):
            modes.append("gradient")
    return modes


def triples_of(op: OpInfo, dtypes: list[str] | None = None) -> list[Triple]:
    """All triples of one op, or those with the given element types."""
    name = op.full_name
    found = [
        Triple(name, dtype, mode)
        for dtype in (dtype_names(op) if dtypes is None else dtypes)
        for mode in modes_of(op, dtype)
    ]
    if op.error_inputs_func is not None:
        found.append(Triple(name, ANY_DTYPE, "errors"))
    return found


def sampled_dtypes(op: OpInfo) -> list[str]:
    """Two element types: float32 where there is one, and one that the name picks."""
    names = dtype_names(op)
    if not names:
        return []
    picked = names[zlib.crc32(op.full_name.encode()) % len(names)]
    return sorted({picked, "float32" if "float32" in names else names[0]})
