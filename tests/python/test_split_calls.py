"""Large library calls run in blocks that the cores share: values, layouts and bits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from comparison import TOLERANCES, same_bits
from device_under_test import DUT, adaptive, inp, only_neuron, seen_strides

#: Gradients of weights sum thousands of products; bfloat16 adds its own rounding.
GRAD_FACTOR = 20.0

BATCHES = [1, 2, 3, 16, 17]

Case = Callable[[str], list[torch.Tensor]]


def grads_of(
    function: Callable[..., torch.Tensor], *inputs: torch.Tensor
) -> list[torch.Tensor]:
    """The result of the function and the gradients of all inputs."""
    leaves = [t.requires_grad_() for t in inputs]
    out = function(*leaves)
    weights = inp(*out.shape, seed=9, dtype=out.dtype).to(out.device)
    return [out, *torch.autograd.grad(out, leaves, weights)]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """A setter of the number of threads; as many as cores afterwards."""
    from torch_neuronx import _C

    yield _C._set_num_threads
    _C._set_num_threads(0)


def run(case: Case, device: str) -> list[torch.Tensor]:
    """The results of the case as tensors on CPU, in the layout they had."""
    return [t.detach().cpu() for t in case(device)]


def check(case: Case, setter: Callable[[int], None], factor: float = 1.0) -> None:
    """CPU to a tolerance; threads and modes to the bit; layouts as on CPU."""
    want = case("cpu")
    results = []
    for count in (1, 2, 4):
        for enabled in (False, True):
            setter(count)
            with adaptive(enabled):
                results.append(run(case, DUT))
    layouts = [seen_strides(t) for t in case(DUT)]
    for i, ref in enumerate(want):
        first = results[0][i]
        for other in results[1:]:
            assert same_bits(first, other[i]), f"[{i}] threads or modes differ"
        rtol, atol = TOLERANCES[ref.dtype]
        largest = max(1.0, ref.detach().abs().max().item()) * factor
        torch.testing.assert_close(first, ref.detach(), rtol=rtol, atol=atol * largest)
        assert layouts[i] == seen_strides(ref), f"[{i}] layout"


def convolution(
    batch: int,
    channels: int = 16,
    filters: int = 16,
    size: int = 40,
    kernel: int = 3,
    dtype: torch.dtype = torch.float32,
    last: bool = False,
    transposed: bool = False,
    groups: int = 1,
    **how: Any,
) -> Case:
    """A convolution in two dimensions with its gradients."""

    def case(device: str) -> list[torch.Tensor]:
        ends = (
            (channels, filters // groups) if transposed else (filters, channels // groups)
        )
        data = inp(batch, channels, size, size, dtype=dtype)
        weight = inp(*ends, kernel, kernel, seed=1, dtype=dtype)
        bias = inp(filters, seed=2, dtype=dtype)
        if last:
            data = data.to(memory_format=torch.channels_last)
        call = F.conv_transpose2d if transposed else F.conv2d
        return grads_of(
            lambda x, w, b: call(x, w, b, groups=groups, **how),
            *(t.to(device) for t in (data, weight, bias)),
        )

    return case


CONVOLUTIONS = {
    "plain": {},
    "padded": {"padding": 1},
    "strided": {"stride": 2, "padding": 1, "size": 64},
    "dilated": {"dilation": 2},
    "grouped": {"groups": 4, "channels": 32, "filters": 32},
    "depthwise": {"groups": 32, "channels": 32, "filters": 32, "size": 96},
    "one by one": {"kernel": 1, "channels": 64, "filters": 64},
    "wide kernel": {"kernel": 7, "padding": 3},
    "transposed": {"transposed": True, "stride": 2},
    "transposed grouped": {"transposed": True, "groups": 2, "output_padding": 0},
    "channels last": {"last": True, "padding": 1},
    "few positions": {"channels": 128, "filters": 256, "size": 6, "padding": 1},
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16, "padding": 1},
    "below the threshold": {"channels": 2, "filters": 2, "size": 8},
}


@only_neuron
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, batch: int, threads: Callable[[int], None]) -> None:
    """Results and gradients of convolutions of all kinds."""
    check(convolution(batch, **CONVOLUTIONS[name]), threads, GRAD_FACTOR)


@only_neuron
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (1, 2)])
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_convolution_wants_some_gradients(
    wanted: tuple[int, ...], batch: int, threads: Callable[[int], None]
) -> None:
    """Only the gradients that are asked for."""

    def case(device: str) -> list[torch.Tensor]:
        leaves = [inp(batch, 16, 40, 40), inp(16, 16, 3, 3, seed=1), inp(16, seed=2)]
        leaves = [t.to(device) for t in leaves]
        for i in wanted:
            leaves[i].requires_grad_()
        F.conv2d(*leaves).square().sum().backward()
        return [t.grad for t in leaves if t.grad is not None]

    check(case, threads, GRAD_FACTOR * 100)


@only_neuron
@pytest.mark.parametrize("dims", [1, 3])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_convolution_in_other_dimensions(
    dims: int, batch: int, threads: Callable[[int], None]
) -> None:
    """One and three dimensions, also transposed."""
    size, calls = {
        1: ((2048,), (F.conv1d, F.conv_transpose1d)),
        3: ((12, 12, 12), (F.conv3d, F.conv_transpose3d)),
    }[dims]

    for call in calls:
        check(
            lambda device, call=call: grads_of(
                call,
                inp(batch, 32, *size).to(device),
                inp(32, 32, *([3] * dims), seed=1).to(device),
            ),
            threads,
            GRAD_FACTOR,
        )


def attention(
    batch: int,
    heads: int,
    length: int = 128,
    width: int = 64,
    dtype: torch.dtype = torch.float32,
    mask: str = "",
    transposed: bool = False,
    is_causal: bool = False,
) -> Case:
    """Scaled dot product attention with its gradients."""
    shapes = {
        "": None,
        "scores": (length, length),
        "batch": (batch, 1, length, length),
        "heads": (1, heads, length, length),
        "all": (batch, heads, length, length),
        "bool": (batch, 1, length, length),
        "keys": (batch, 1, 1, length),
    }
    shape = shapes[mask]

    def case(device: str) -> list[torch.Tensor]:
        given = None
        if mask == "bool":
            given = inp(*shape, seed=5, dtype=torch.bool)
            given[..., 0] = True
        elif shape is not None:
            given = inp(*shape, seed=5, dtype=dtype)
        given = None if given is None else given.to(device)
        parts = [inp(batch, heads, length, width, seed=i, dtype=dtype) for i in range(3)]
        if transposed:
            parts = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in parts]
        return grads_of(
            lambda q, k, v: F.scaled_dot_product_attention(
                q, k, v, given, is_causal=is_causal
            ),
            *(t.to(device) for t in parts),
        )

    return case


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "mask of scores": {"mask": "scores"},
    "mask per batch": {"mask": "batch"},
    "mask per head": {"mask": "heads"},
    "mask of all": {"mask": "all"},
    "bool mask": {"mask": "bool"},
    "mask of keys": {"mask": "keys"},
    "bfloat16": {"dtype": torch.bfloat16},
    "transposed": {"transposed": True},
    "long": {"length": 300},
}


@only_neuron
@pytest.mark.parametrize(
    "extents", [(1, 1), (1, 3), (1, 12), (2, 8), (3, 2), (16, 2), (17, 1)]
)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(
    name: str, extents: tuple[int, int], threads: Callable[[int], None]
) -> None:
    """Results and gradients of attention, divided by batches and by heads."""
    check(attention(*extents, **ATTENTION[name]), threads, GRAD_FACTOR)


@only_neuron
@pytest.mark.parametrize("mask", ["", "padding", "scores"])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("is_first", [False, True])
def test_encoder_layer(
    is_first: bool, batch: int, mask: str, threads: Callable[[int], None]
) -> None:
    """A whole encoder layer, divided by sequences."""

    def case(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(
            64, 4, 256, batch_first=True, norm_first=is_first
        )
        layer = layer.eval().to(device)
        how = {}
        if mask == "padding":
            padding = torch.zeros(batch, 100, dtype=torch.bool)
            padding[:, 80:] = True
            how["src_key_padding_mask"] = padding.to(device)
        elif mask == "scores":
            scores = torch.ones(100, 100, dtype=torch.bool).triu(1)
            how["src_mask"] = scores.to(device)
        with torch.inference_mode():
            return [layer(inp(batch, 100, 64).to(device), **how)]

    check(case, threads)


@only_neuron
def test_failure_in_a_block_is_raised(mode: str, threads: Callable[[int], None]) -> None:
    """CPU has no kernel for this dtype: its error reaches whoever reads the value."""
    for count in (1, 2):
        threads(count)
        data = inp(8, 16, 40, 40, dtype=torch.bool)
        weight = inp(16, 16, 3, 3, seed=1, dtype=torch.bool)
        with pytest.raises(Exception) as on_cpu:
            F.conv2d(data, weight)
        with pytest.raises(type(on_cpu.value), match="not implemented for"):
            F.conv2d(data.to(DUT), weight.to(DUT)).cpu()
        torch.accelerator.synchronize()
        good = F.conv2d(data.float().to(DUT), weight.float().to(DUT))
        assert good.cpu().isfinite().all()
