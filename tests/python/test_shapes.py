"""Shape functions against the CPU kernels, over PyTorch's own operator samples.

Every aten call that an operator makes on the CPU is intercepted below autograd; where a
shape function exists, what it reports must be what the kernel returns: sizes, strides and
dtype.
"""

import itertools
import os

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

torch_neuronx = pytest.importorskip("torch_neuronx")

# All samples of all dtypes take minutes; continuous integration runs a cut.
IS_FULL = os.environ.get("NEURON_TEST_FULL", "0") == "1"
SAMPLES = 100 if IS_FULL else 4
DTYPES = [torch.float32, torch.int64]
if IS_FULL:
    DTYPES += [torch.bfloat16, torch.complex64, torch.bool]


def describe(tensor):
    if tensor is None:
        return None
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def is_plain(value) -> bool:
    return (
        value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
        and not value.is_nested
        and not value._is_zerotensor()
    )


def outputs_of(result):
    """The flat list of tensors (or None) that an op returned."""
    if result is None or isinstance(result, torch.Tensor):
        return [result] if isinstance(result, torch.Tensor) else []
    flat = []
    for item in result if isinstance(result, (list, tuple)) else []:
        flat += item if isinstance(item, (list, tuple)) else [item]
    return flat


class CompareShapes(TorchDispatchMode):
    """Runs every op and notes where its shape function disagrees."""

    def __init__(self):
        super().__init__()
        self.compared = 0
        self.wrong = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inferred = None if str(func) in LEFT_OUT else self.infer(func, args, kwargs)
        result = func(*args, **kwargs)
        if inferred is None:
            return result
        self.compared += 1
        real = [describe(t) for t in outputs_of(result)]
        if isinstance(inferred, Exception):
            self.wrong.setdefault(str(func), f"raises {inferred!r}, kernel gives {real}")
        elif [None if i is None else tuple(i) for i in inferred] != real:
            self.wrong.setdefault(str(func), f"infers {inferred}, kernel gives {real}")
        return result

    @staticmethod
    def infer(func, args, kwargs):
        tensors = [t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor)]
        if func.namespace != "aten" or not all(map(is_plain, tensors)):
            return None
        schema = func._schema
        if any(arg.is_out for arg in schema.arguments):
            return None  # inference would resize the caller's tensor
        # In schema order, with the defaults that the call left out.
        full = list(args)
        for arg in schema.arguments[len(args) :]:
            if arg.name in kwargs:
                full.append(kwargs[arg.name])
            elif arg.has_default_value():
                full.append(arg.default_value)
            else:
                full.append(None)
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        try:
            inferred = torch_neuronx._C._infer_shapes(name, tuple(full))
            return inferred and [i and as_described(*i) for i in inferred]
        except Exception as error:  # the kernel decides whether it is one
            # A Python number may stand where the schema has a tensor.
            return None if "Unable to cast" in str(error) else error


#: addr: for now, another layout than the kernel's, which costs a copy and no number;
#: convolution_backward: for ever, the device records the overrideable op instead.
LEFT_OUT = ("aten.addr.default", "aten.convolution_backward.default")

#: C++ names of the dtypes that the binding reports.
DTYPE_NAMES = {
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "UInt64": torch.uint64,
    "Half": torch.float16,
    "Float": torch.float32,
    "Double": torch.float64,
    "ComplexHalf": torch.complex32,
    "ComplexFloat": torch.complex64,
    "ComplexDouble": torch.complex128,
    "Bool": torch.bool,
    "BFloat16": torch.bfloat16,
}


def as_described(sizes, strides, dtype):
    return tuple(sizes), tuple(strides), DTYPE_NAMES.get(dtype, dtype)


def layouts(sample):
    """The sample as it is, transposed, and with gaps."""
    yield sample

    def transposed(value):
        if not isinstance(value, torch.Tensor) or value.dim() < 2:
            return value
        return value.detach().transpose(0, -1).contiguous().transpose(0, -1)

    def images(value):
        if not isinstance(value, torch.Tensor) or value.dim() != 4:
            return value
        return value.detach().contiguous(memory_format=torch.channels_last)

    yield sample.noncontiguous()
    yield sample.transform(transposed)
    yield sample.transform(images)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shape_functions_agree_with_cpu_kernels(dtype):
    mode = CompareShapes()
    for op in op_db:
        # Sparse tensors are not dense storages; jiterator ops compile for CUDA alone.
        if "sparse" in op.name or "jiterator" in op.name:
            continue
        if dtype not in op.supported_dtypes("cpu"):
            continue
        has_grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        samples = op.sample_inputs("cpu", dtype, requires_grad=has_grad)
        for sample in itertools.islice(samples, SAMPLES):
            for variant in layouts(sample):
                with mode:
                    try:
                        result = op(variant.input, *variant.args, **variant.kwargs)
                        wanted = [t for t in outputs_of(result) if t.requires_grad]
                        if wanted:
                            ones = [torch.ones_like(t) for t in wanted]
                            torch.autograd.backward(wanted, ones)
                    except (
                        RuntimeError,
                        TypeError,
                        ValueError,
                        IndexError,
                        AttributeError,
                    ):
                        pass  # not a sample of this layout
    assert mode.compared > 1000
    assert mode.wrong == {}


@pytest.mark.parametrize(
    "name, args, error, text",
    [
        (
            "aten::mm",
            (torch.ones(2, 3), torch.ones(2, 3)),
            RuntimeError,
            "cannot be multiplied",
        ),
        (
            "aten::add.Tensor",
            (torch.ones(2), torch.ones(3), 1),
            RuntimeError,
            "must match",
        ),
        (
            "aten::uniform_",
            (torch.ones(2), 1.0, 0.0, None),
            RuntimeError,
            "from=1 > to=0",
        ),
        ("aten::normal_", (torch.ones(2), 0.0, -1.0, None), RuntimeError, "std >= 0.0"),
        ("aten::max", (torch.ones(0),), RuntimeError, "Specify the reduction dim"),
        (
            "aten::relu",
            (torch.ones(2, dtype=torch.bool),),
            RuntimeError,
            "Boolean inputs",
        ),
        (
            "aten::masked_fill_.Scalar",
            (torch.ones(2), torch.ones(2), 0),
            RuntimeError,
            "only supports boolean masks",
        ),
        (
            "aten::index_select",
            (torch.ones(2, 2), 0, torch.ones(2)),
            RuntimeError,
            "Expected dtype int32 or int64 for index",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "::" in value else "",
)
def test_wrong_arguments_raise_at_the_call(name, args, error, text):
    with pytest.raises(error, match=text):
        torch_neuronx._C._infer_shapes(name, args)


@pytest.mark.parametrize(
    "name", ["aten::nonzero", "aten::_unique2", "aten::masked_select"]
)
def test_data_dependent_ops_have_no_shape_function(name):
    assert torch_neuronx._C._infer_shapes(name, (torch.ones(2),)) is None
