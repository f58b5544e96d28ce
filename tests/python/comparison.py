"""Device-generic tests: a case on CPU, in plain and in adaptive eager, compared."""

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_leaves, tree_map

from device_under_test import adaptive

#: Tolerance against CPU by element type: the device sums in another order, and rounds
#: half types after each op where a fused kernel of CPU rounds once.
TOLERANCES = {
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float16: (4e-3, 4e-3),
    torch.complex64: (1e-4, 1e-5),
}


def moved(value: Any, device: str) -> Any:
    """The value with copies of its tensors on the device."""

    def leaf(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        twin = item.detach().clone().to(device)
        return twin.requires_grad_(item.requires_grad)

    return tree_map(leaf, value)


def fetched(value: Any) -> list[Any]:
    """All leaves, tensors as copies on CPU."""
    return [
        leaf.detach().cpu().clone() if isinstance(leaf, torch.Tensor) else leaf
        for leaf in tree_leaves(value)
    ]


def same_bits(one: Any, other: Any) -> bool:
    """Whether two fetched leaves are the same in every bit."""
    if not isinstance(one, torch.Tensor):
        return one == other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    flat = [
        t.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
        for t in (one, other)
    ]
    return torch.equal(*flat)


def scale_of(tensor: torch.Tensor) -> float:
    """At least 1: the largest finite magnitude. Elements that are small because large
    ones cancel have the errors of the large ones, on the CPU as well."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return 1.0
    magnitudes = tensor.detach().abs().double()
    finite = magnitudes[magnitudes.isfinite()]
    return max(1.0, finite.max().item()) if finite.numel() else 1.0


class Comparison(TestCase):
    """Runs a case on CPU and twice on the device."""

    def compare(self, case: Callable[[str], Any], device: str) -> None:
        """CPU to a tolerance (random draws: in shape only), both modes to the bit."""
        torch.manual_seed(0)
        before = torch.get_rng_state()
        want = fetched(case("cpu"))
        drew = not torch.equal(before, torch.get_rng_state())
        results = []
        for enabled in (False, True):
            with adaptive(enabled):
                torch.manual_seed(0)
                results.append(fetched(case(device)))
        plain, lazy = results
        self.assertEqual(len(plain), len(want))
        for i, (one, other, ref) in enumerate(zip(plain, lazy, want, strict=True)):
            self.assertTrue(same_bits(one, other), f"[{i}] adaptive differs from plain")
            if not isinstance(ref, torch.Tensor):
                self.assertEqual(one, ref)
                continue
            self.assertEqual(one.dtype, ref.dtype, f"[{i}]")
            self.assertEqual(one.shape, ref.shape, f"[{i}]")
            if not drew:
                rtol, atol = TOLERANCES.get(ref.dtype, (0, 0))
                atol *= scale_of(ref)
                self.assertEqual(one, ref, rtol=rtol, atol=atol, msg=f"[{i}]")
