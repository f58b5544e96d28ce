"""Rows picked and added by index: embedding, index_select, x[i] and their gradients."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

from comparison import same_bits
from device_under_test import DUT, adaptive, inp, only_neuron

Case = Callable[[str], list[torch.Tensor]]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """A setter of the number of threads; as many as cores afterwards."""
    from torch_neuronx import _C

    yield _C._set_num_threads
    _C._set_num_threads(0)


def rows_of(table: torch.Tensor, *shape: int) -> torch.Tensor:
    """Indices of rows of the table, many of them twice."""
    count = torch.Size(shape).numel()
    index = (torch.arange(count) * 7919 + 13) % table.shape[0]
    return index.reshape(shape).to(table.device)


def with_gradient(table: torch.Tensor, picked: torch.Tensor) -> list[torch.Tensor]:
    """What was picked and the gradient of the table for weights of the result."""
    weights = inp(*picked.shape, seed=9, dtype=picked.dtype).to(picked.device)
    return [picked, torch.autograd.grad(picked, table, weights)[0]]


def embedding(device: str) -> list[torch.Tensor]:
    table = inp(200, 64).to(device).requires_grad_()
    return with_gradient(table, F.embedding(rows_of(table, 16, 33), table))


def embedding_with_padding(device: str) -> list[torch.Tensor]:
    table = inp(20, 64).to(device).requires_grad_()
    index = rows_of(table, 16, 33)
    return with_gradient(table, F.embedding(index, table, padding_idx=3))


def embedding_scaled_by_frequency(device: str) -> list[torch.Tensor]:
    table = inp(20, 8).to(device).requires_grad_()
    index = rows_of(table, 40)
    return with_gradient(table, F.embedding(index, table, scale_grad_by_freq=True))


def embedding_in_bfloat16(device: str) -> list[torch.Tensor]:
    return [F.embedding(rows_of(table := inp(20, 8).bfloat16().to(device), 40), table)]


def embedding_of_int32(device: str) -> list[torch.Tensor]:
    table = inp(20, 8).to(device).requires_grad_()
    return with_gradient(table, F.embedding(rows_of(table, 40).int(), table))


def index_select(device: str) -> list[torch.Tensor]:
    table = inp(300, 5, 7).to(device).requires_grad_()
    return with_gradient(table, table.index_select(0, rows_of(table, 1000)))


def index_select_of_columns(device: str) -> list[torch.Tensor]:
    table = inp(30, 50).to(device).requires_grad_()
    return with_gradient(table, table.index_select(1, rows_of(table, 100)))


def one_index(device: str) -> list[torch.Tensor]:
    table = inp(300, 64, dtype=torch.float64).to(device).requires_grad_()
    return with_gradient(table, table[rows_of(table, 20, 30) - 300])


def two_indices(device: str) -> list[torch.Tensor]:
    table = inp(30, 40, 3).to(device).requires_grad_()
    return with_gradient(table, table[rows_of(table, 20), rows_of(table, 20)])


def index_behind_a_slice(device: str) -> list[torch.Tensor]:
    table = inp(6, 40, 3).to(device).requires_grad_()
    return with_gradient(table, table[:, rows_of(table, 9)])


def index_of_a_transposed_table(device: str) -> list[torch.Tensor]:
    table = inp(6, 40).to(device).requires_grad_()
    return with_gradient(table, table.t()[rows_of(table, 9)])


def assigned_rows(device: str) -> list[torch.Tensor]:
    table = inp(300, 64).to(device)
    table[torch.arange(0, 300, 3, device=device)] = inp(100, 64, seed=2).to(device)
    return [table]


def assigned_number(device: str) -> list[torch.Tensor]:
    table = inp(300, 64).to(device)
    table[rows_of(table, 20)] = 4.5
    return [table]


def added_rows(device: str) -> list[torch.Tensor]:
    table = inp(300, 64).to(device)
    index = rows_of(table, 1000)
    table.index_put_((index,), inp(1000, 64, seed=2).to(device), accumulate=True)
    return [table]


def added_by_index_add(device: str) -> list[torch.Tensor]:
    table = inp(300, 64).to(device)
    index, rows = rows_of(table, 1000), inp(1000, 64, seed=2).to(device)
    return [table.index_add(0, index, rows), table.index_add_(0, index, rows, alpha=2)]


def rows_of_booleans(device: str) -> list[torch.Tensor]:
    table = (inp(30, 9) > 0).to(device)
    return [table[rows_of(table, 50)]]


CASES: list[Case] = [
    embedding,
    embedding_with_padding,
    embedding_scaled_by_frequency,
    embedding_in_bfloat16,
    embedding_of_int32,
    index_select,
    index_select_of_columns,
    one_index,
    two_indices,
    index_behind_a_slice,
    index_of_a_transposed_table,
    assigned_rows,
    assigned_number,
    added_rows,
    added_by_index_add,
    rows_of_booleans,
]


@only_neuron
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case_agrees_with_cpu_whatever_the_threads_and_the_mode(case, threads):
    want = case("cpu")
    results = []
    for count in (1, 2, 3):
        for enabled in (False, True):
            threads(count)
            with adaptive(enabled):
                results.append([t.detach().cpu() for t in case(DUT)])
    for i, ref in enumerate(want):
        for other in results[1:]:
            assert same_bits(results[0][i], other[i])
        torch.testing.assert_close(results[0][i], ref.detach(), rtol=1e-5, atol=1e-5)


@only_neuron
def test_rows_are_picked_by_the_device_itself():
    import torch_neuronx

    table = inp(20, 8).to(DUT).requires_grad_()
    index = rows_of(table, 40)
    with adaptive(True), torch_neuronx.explain() as report:
        with_gradient(table, F.embedding(index, table))[1].cpu()
    assert "embedding" not in str(report).split("calls of PyTorch's CPU kernels")[-1]


@pytest.mark.parametrize("index", [[5], [-6]])
def test_index_out_of_bounds_is_an_index_error(index):
    table = inp(5, 2).to(DUT)
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 5"):
        table[torch.tensor(index, device=DUT)].cpu()


@pytest.mark.parametrize("index", [[5], [-1]])
def test_token_out_of_range_is_an_index_error(index):
    table = inp(5, 2).to(DUT)
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding(torch.tensor(index, device=DUT), table).cpu()
