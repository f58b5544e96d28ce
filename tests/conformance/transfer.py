"""Moves samples made on CPU to a device with strides, offsets and view bits unchanged."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_leaves, tree_map


@dataclasses.dataclass
class Call:
    """Arguments of one call of an op."""

    input: Any
    args: Any
    kwargs: dict[str, Any]
    process: Callable[[Any], Any]

    def tensors(self) -> list[torch.Tensor]:
        """All tensors among the arguments, in order."""
        leaves = tree_leaves((self.input, self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


class UnsupportedLayout(Exception):
    """The sample or its result holds a tensor that is not strided."""


def require_strided(value: Any) -> None:
    """Raises UnsupportedLayout if a tensor of the nest is sparse, quantized or nested."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided or leaf.is_quantized or leaf.is_nested:
                raise UnsupportedLayout(str(leaf.layout))


def move_tensor(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy on `device` that has the tensor's whole storage, strides and flags."""
    require_strided(tensor)
    source = tensor.detach()
    if source.is_conj():
        moved = move_tensor(source.conj(), device).conj()
    elif source.is_neg():
        moved = torch._neg_view(move_tensor(torch._neg_view(source), device))
    else:
        elements = source.untyped_storage().nbytes() // source.element_size()
        flat = source.as_strided((elements,), (1,), 0).clone().to(device)
        moved = flat.as_strided(source.size(), source.stride(), source.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)


def move(value: Any, device: str) -> Any:
    """The value with all its tensors and devices moved from CPU to `device`."""

    def leaf(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return move_tensor(item, device)
        if isinstance(item, torch.device) and item.type == "cpu":
            return torch.device(device)
        return device if isinstance(item, str) and item == "cpu" else item

    return tree_map(leaf, value)


def move_sample(sample: SampleInput, device: str) -> Call:
    """The sample as a call on `device`."""
    return Call(
        input=move(sample.input, device),
        args=move(tuple(sample.args), device),
        kwargs=move(dict(sample.kwargs), device),
        process=sample.output_process_fn_grad or (lambda result: result),
    )


def fetch(value: Any) -> Any:
    """The value with all its tensors as ordinary CPU tensors."""

    require_strided(value)

    def leaf(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        return item.detach().to("cpu").resolve_conj().resolve_neg()

    return tree_map(leaf, value)
