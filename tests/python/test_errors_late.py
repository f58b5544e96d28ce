"""Every kind of error that comes when an op runs: type, words, op, line; and after."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

from device_under_test import DUT, only_neuron

pytestmark = [only_neuron, pytest.mark.usefixtures("mode")]

HERE = os.path.basename(__file__)

Case = Callable[[str], object]


@dataclass(frozen=True)
class Late:
    """A call that fails when it runs: how, which op says so, and with which operands."""

    call: Case
    exception: type[Exception]
    words: str
    op: str
    operands: tuple[str, ...]


def indices(device: str, *values: int) -> torch.Tensor:
    return torch.tensor(values, device=device)


def table(device: str) -> torch.Tensor:
    return torch.zeros(3, 2, device=device)


OUT_OF_BOUNDS = "index 7 is out of bounds for dimension 0 with size 3"

LATE = {
    "gather": Late(
        lambda d: table(d).gather(0, indices(d, 7, 0)[None]),
        RuntimeError,
        OUT_OF_BOUNDS,
        "aten::gather",
        ("f32[3, 2]", "i64[1, 2]"),
    ),
    "index_select": Late(
        lambda d: table(d).index_select(0, indices(d, 7)),
        IndexError,
        "index out of range in self",
        "aten::index_select",
        ("f32[3, 2]", "i64[1]"),
    ),
    "index": Late(
        lambda d: table(d)[indices(d, 0, 7)],
        IndexError,
        OUT_OF_BOUNDS,
        "aten::index",
        ("f32[3, 2]", "i64[2]", "f32[2, 2]"),
    ),
    "index_put": Late(
        lambda d: table(d).index_put((indices(d, 7),), torch.ones(1, 2, device=d)),
        IndexError,
        OUT_OF_BOUNDS,
        "aten::_index_put_impl_",
        ("i64[1]", "f32[1, 2]"),
    ),
    "index_add": Late(
        lambda d: table(d).index_add(0, indices(d, 7), torch.ones(1, 2, device=d)),
        RuntimeError,
        OUT_OF_BOUNDS,
        "aten::index_add",
        ("f32[3, 2]", "i64[1]"),
    ),
    "index_copy": Late(
        lambda d: table(d).index_copy(0, indices(d, 7), torch.ones(1, 2, device=d)),
        IndexError,
        OUT_OF_BOUNDS,
        "aten::index_copy",
        ("f32[3, 2]", "i64[1]"),
    ),
    "take": Late(
        lambda d: table(d).take(indices(d, 7)),
        IndexError,
        "tried to access index 7 on a tensor of 6 elements",
        "aten::take",
        ("f32[3, 2]", "i64[1]"),
    ),
    "embedding": Late(
        lambda d: F.embedding(indices(d, 1, 7), table(d)),
        IndexError,
        "index out of range in self",
        "aten::embedding",
        ("f32[3, 2]", "i64[2]"),
    ),
    "embedding_negative": Late(
        lambda d: F.embedding(indices(d, -9), table(d)),
        IndexError,
        "index out of range in self",
        "aten::embedding",
        ("f32[3, 2]", "i64[1]"),
    ),
    "embedding_bag": Late(
        lambda d: F.embedding_bag(indices(d, 7)[None], table(d)),
        RuntimeError,
        "takes value 7 which is not in the valid range [0, 3)",
        "aten::_embedding_bag",
        ("f32[3, 2]", "i64[1]"),
    ),
    "scatter": Late(
        lambda d: table(d).scatter(0, indices(d, 7, 0)[None], table(d)[:1]),
        RuntimeError,
        OUT_OF_BOUNDS,
        "aten::scatter",
        ("f32[3, 2]", "i64[1, 2]"),
    ),
    "scatter_add": Late(
        lambda d: table(d).scatter_add(
            0, indices(d, 7, 0)[None], torch.ones(1, 2, device=d)
        ),
        RuntimeError,
        OUT_OF_BOUNDS,
        "aten::scatter_add",
        ("f32[3, 2]", "i64[1, 2]"),
    ),
    "scatter_reduce": Late(
        lambda d: table(d).scatter_reduce(
            0, indices(d, 7, 0)[None], torch.ones(1, 2, device=d), "amax"
        ),
        RuntimeError,
        OUT_OF_BOUNDS,
        "aten::scatter_reduce",
        ("f32[3, 2]", "i64[1, 2]"),
    ),
    "cross_entropy": Late(
        lambda d: F.cross_entropy(torch.zeros(2, 3, device=d), indices(d, 1, 7)),
        IndexError,
        "Target 7 is out of bounds.",
        "aten::nll_loss_forward",
        ("f32[2, 3]", "i64[2]"),
    ),
    "cross_entropy_negative": Late(
        lambda d: F.cross_entropy(torch.zeros(2, 3, device=d), indices(d, -7, 1)),
        IndexError,
        "Target -7 is out of bounds.",
        "aten::nll_loss_forward",
        ("f32[2, 3]", "i64[2]"),
    ),
    "cross_entropy_of_images": Late(
        lambda d: F.cross_entropy(
            torch.zeros(1, 3, 2, 2, device=d), torch.full((1, 2, 2), 9, device=d)
        ),
        IndexError,
        "Target 9 is out of bounds.",
        "aten::nll_loss2d_forward",
        ("f32[1, 3, 2, 2]", "i64[1, 2, 2]"),
    ),
    "floor_divide": Late(
        lambda d: indices(d, 4, 2) // indices(d, 2, 0),
        RuntimeError,
        "ZeroDivisionError",
        "aten::floor_divide",
        ("i64[2]",),
    ),
    "floor_divide_by_a_number": Late(
        lambda d: indices(d, 4, 2) // 0,
        RuntimeError,
        "ZeroDivisionError",
        "aten::floor_divide",
        ("i64[2]",),
    ),
    "remainder_of_narrow_integers": Late(
        lambda d: indices(d, 4, 2).int() % indices(d, 2, 0).int(),
        RuntimeError,
        "ZeroDivisionError",
        "aten::remainder",
        ("i32[2]",),
    ),
    "fmod": Late(
        lambda d: indices(d, 4, 2).fmod(indices(d, 2, 0)),
        RuntimeError,
        "ZeroDivisionError",
        "aten::fmod",
        ("i64[2]",),
    ),
    "division_that_truncates": Late(
        lambda d: indices(d, 4).div(indices(d, 0), rounding_mode="trunc"),
        RuntimeError,
        "ZeroDivisionError",
        "aten::div",
        ("i64[1]",),
    ),
    "host_op": Late(
        lambda d: torch.multinomial(torch.tensor([-1.0, 2.0], device=d), 1),
        RuntimeError,
        "probability tensor contains either `inf`, `nan` or element < 0",
        "aten::multinomial",
        ("f32[2]", "i64[1]"),
    ),
    "loss_of_the_host": Late(
        lambda d: F.binary_cross_entropy(
            torch.tensor([2.0], device=d), torch.tensor([1.0], device=d)
        ),
        RuntimeError,
        "all elements of input should be between 0 and 1",
        "aten::binary_cross_entropy",
        ("f32[1]",),
    ),
}

all_kinds = pytest.mark.parametrize("late", LATE.values(), ids=LATE)


def fail(late: Late) -> tuple[BaseException, str]:
    """The error that the next synchronisation raises, and the line that recorded it."""
    torch.neuron.synchronize()
    result = late.call(DUT)
    line = f"{HERE}:{late.call.__code__.co_firstlineno}"
    with pytest.raises(late.exception) as raised:
        torch.neuron.synchronize()
    del result
    return raised.value, line


@all_kinds
def test_type_and_words_are_those_of_the_cpu(late: Late):
    with pytest.raises(late.exception) as on_cpu:
        late.call("cpu")
    error, _ = fail(late)
    assert type(error) is type(on_cpu.value) is late.exception
    assert late.words in str(error)
    assert str(error).startswith(str(on_cpu.value).splitlines()[0])


@all_kinds
def test_op_operands_stream_and_line_are_named(late: Late):
    error, line = fail(late)
    assert late.op in str(error)
    for operand in (*late.operands, "on stream 0"):
        assert operand in str(error)
    name, first = line.split(":")
    recorded = re.search(rf"recorded at \S*{re.escape(name)}:(\d+)", str(error))
    assert recorded is not None, str(error)
    assert 0 <= int(recorded[1]) - int(first) <= 3  # a call of several lines


@all_kinds
def test_the_device_works_and_other_tensors_are_right_after_it(late: Late):
    apart = torch.arange(6.0, device=DUT) * 2
    fail(late)
    torch.neuron.synchronize()
    assert apart.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    w = torch.ones(3, 2, device=DUT, requires_grad=True)
    F.embedding(indices(DUT, 1, 1), w).sum().backward()
    assert w.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]


@all_kinds
def test_reading_the_result_raises_and_what_depends_on_it_too(late: Late):
    torch.neuron.synchronize()
    result = late.call(DUT)
    depends = result.double() + 1
    with pytest.raises(late.exception):
        result.tolist()
    with pytest.raises(late.exception):
        depends.tolist()
    torch.neuron.synchronize()


def test_an_index_out_of_range_in_backward_names_a_line():
    w = torch.ones(3, 2, device=DUT, requires_grad=True)
    loss = F.embedding(indices(DUT, 5), w).sum()
    with pytest.raises(IndexError, match=rf"aten::embedding .*{HERE}"):
        loss.backward()
        torch.neuron.synchronize()
    torch.neuron.synchronize()


def test_the_stream_is_named():
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        late = table(DUT)[indices(DUT, 7)]
    with pytest.raises(IndexError, match=f"on stream {stream.stream_id}"):
        stream.synchronize()
    del late
    torch.neuron.synchronize()


class TestAnomaly:
    def test_a_nan_in_backward_is_raised_with_the_forward_line(self):
        x = torch.tensor([-1.0, 1.0], device=DUT, requires_grad=True)
        with (
            pytest.warns(UserWarning, match="Anomaly Detection has been enabled"),
            torch.autograd.detect_anomaly(),
        ):
            y = x.sqrt().sum()
            with (
                pytest.warns(UserWarning, match=r"Traceback of forward call[\s\S]*sqrt"),
                pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"),
            ):
                y.backward()
        torch.neuron.synchronize()

    def test_without_a_nan_nothing_is_raised(self):
        x = torch.tensor([4.0, 1.0], device=DUT, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            (x.sqrt() * 2).sum().backward()
        assert x.grad.tolist() == [0.5, 1.0]


class TestWorker:
    @pytest.fixture(autouse=True)
    def sound(self):
        yield
        torch.neuron._C._set_fault("none", "")

    @pytest.mark.parametrize("op", ["aten::exp", "aten::sum", "aten::sort"])
    def test_an_exception_in_a_kernel_is_a_late_error(self, op: str):
        x = torch.ones(4, device=DUT)
        torch.neuron.synchronize()
        torch.neuron._C._set_fault("throw", op)
        results = x.exp(), x.sum(), x.sort().values
        with pytest.raises(
            RuntimeError, match=rf"a kernel threw an exception: .*\n.*{op} .*{HERE}"
        ):
            torch.neuron.synchronize()
        torch.neuron._C._set_fault("none", "")
        torch.neuron.synchronize()
        broken = ["aten::exp", "aten::sum", "aten::sort"].index(op)
        for i, result in enumerate(results):
            if i == broken:
                with pytest.raises(RuntimeError):
                    result.tolist()
            else:
                result.tolist()
        assert x.exp().sum().item() == pytest.approx(4 * 2.718281828)

    def test_the_worker_goes_on_by_itself(self):
        """Nobody waits while the step throws: the worker's own thread meets it."""
        event = torch.neuron.Event()
        torch.neuron._C._set_fault("throw", "aten::exp")
        x = torch.ones(4, device=DUT).exp()
        event.record()
        while not event.query():
            pass
        torch.neuron._C._set_fault("none", "")
        with pytest.raises(RuntimeError, match="threw"):
            x.tolist()
        assert (torch.ones(2, device=DUT) + 1).tolist() == [2.0, 2.0]
