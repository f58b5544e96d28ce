"""How two fetched results are compared: within a tolerance, bit for bit, or by shape."""

from typing import Any

import torch
from torch.utils._pytree import tree_flatten

#: Relative and absolute tolerance against CPU, by element type. float32 and complex64:
#: eight times torch.testing's, because the device sums in another order than CPU. Half
#: types: two of their own roundings, since a fused CPU kernel may round once where the
#: device rounds after each op. float64: torch.testing's own.
TOLERANCES = {
    torch.float32: (1e-5, 1e-5),
    torch.complex64: (1e-5, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
}


def leaves(value: Any) -> tuple[list[Any], str]:
    """The leaves of a nest and the text of its structure."""
    flat, spec = tree_flatten(value)
    return flat, str(spec)


def differ_in_form(got: Any, want: Any) -> str | None:
    """What differs in structure, shape or element type; None where nothing does."""
    got_leaves, got_spec = leaves(got)
    want_leaves, want_spec = leaves(want)
    if got_spec != want_spec:
        return f"structure {got_spec}, want {want_spec}"
    for i, (one, other) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        if type(one) is not type(other):
            return f"[{i}] is {type(one).__name__}, want {type(other).__name__}"
        if not isinstance(one, torch.Tensor):
            continue
        if one.shape != other.shape:
            return f"[{i}] shape {tuple(one.shape)}, want {tuple(other.shape)}"
        if one.dtype != other.dtype:
            return f"[{i}] dtype {one.dtype}, want {other.dtype}"
    return None


def differ_in_value(got: Any, want: Any) -> str | None:
    """As `differ_in_form`, and what differs in value beyond the tolerance."""
    form = differ_in_form(got, want)
    if form is not None:
        return form
    for i, (one, other) in enumerate(zip(leaves(got)[0], leaves(want)[0], strict=True)):
        if not isinstance(one, torch.Tensor):
            if one != other and not (one != one and other != other):
                return f"[{i}] {one!r}, want {other!r}"
            continue
        rtol, atol = TOLERANCES.get(other.dtype, (0.0, 0.0))
        try:
            torch.testing.assert_close(one, other, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            text = " ".join(str(error).split())
            return f"[{i}] {text[:200]}"
    return None


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes in logical order."""
    copy = tensor.clone(memory_format=torch.contiguous_format)
    return copy.reshape(-1).view(torch.uint8)


def differ_in_bits(got: Any, want: Any) -> str | None:
    """As `differ_in_form`, and whether any bit differs."""
    form = differ_in_form(got, want)
    if form is not None:
        return form
    for i, (one, other) in enumerate(zip(leaves(got)[0], leaves(want)[0], strict=True)):
        if not isinstance(one, torch.Tensor):
            if one != other and not (one != one and other != other):
                return f"[{i}] {one!r}, want {other!r}"
        elif not torch.equal(bits(one), bits(other)):
            count = int((bits(one) != bits(other)).sum())
            return f"[{i}] {count} of {bits(one).numel()} bytes differ"
    return None
