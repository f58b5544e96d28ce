"""Comparing the lean backward loop with PyTorch's engine."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch

from device_under_test import DUT, inp


@contextlib.contextmanager
def lean_autograd(enabled: bool) -> Iterator[None]:
    """The switch, and as before afterwards."""
    before = torch.neuron.is_lean_autograd()
    torch.neuron.set_lean_autograd(enabled)
    try:
        yield
    finally:
        torch.neuron.set_lean_autograd(before)


def counts() -> dict:
    """What ran lean and what did not."""
    return torch.neuron.window_report()["backward"]


@contextlib.contextmanager
def expect(lean_passes: int, **original: int) -> Iterator[None]:
    """So many passes run lean, and so many in PyTorch's engine for each reason."""
    torch.neuron.reset_window_report()
    yield
    seen = counts()
    wanted = {reason.replace("_", "-"): n for reason, n in original.items()}
    assert (seen["lean"], seen["original"]) == (lean_passes, wanted)


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return inp(*shape, seed=seed).to(DUT).requires_grad_()


def to_bits(value: object) -> object:
    """A tensor as bytes, shape and strides; containers entry by entry."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        raw = plain.contiguous().view(torch.uint8) if plain.dim() else plain.item()
        content = bytes(raw.flatten().tolist()) if plain.dim() else repr(raw)
        return str(value.dtype), tuple(value.shape), value.stride(), content
    if isinstance(value, dict):
        return {key: to_bits(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_bits(entry) for entry in value]
    return value


def same(case: Callable[[], object], *, passes: int | None = None) -> None:
    """`case` gives the same in the lean loop and in PyTorch's engine.

    With `passes`, so many ran lean and none in PyTorch's engine.
    """
    with lean_autograd(False):
        wanted = to_bits(case())
    torch.neuron.reset_window_report()
    with lean_autograd(True):
        got = to_bits(case())
    seen = counts()
    assert got == wanted
    assert seen["lean"] > 0 if passes is None else seen["lean"] == passes
    if passes is not None:
        assert seen["original"] == {}


def both_messages(case: Callable[[], object]) -> tuple[str, str]:
    """What the error says in PyTorch's engine and in the lean loop."""
    said = []
    for enabled in (False, True):
        with lean_autograd(enabled), pytest.raises(RuntimeError) as raised:
            case()
        said.append(str(raised.value))
    return said[0], said[1]
