"""The sweep finds what it is there to find: its parts against made-up results."""

import pathlib
import tempfile

import pytest
import torch
from torch.testing._internal.opinfo.core import SampleInput

import compare
import sweep
import triple
import worker
from transfer import UnsupportedLayout, fetch, move_sample, move_tensor
from triple import Triple


def test_moved_tensor_keeps_strides_offset_and_flags():
    x = torch.arange(24.0).view(4, 6)[1:, ::2].t().requires_grad_()
    y = move_tensor(x, "cpu")
    assert y.stride() == x.stride() and y.storage_offset() == x.storage_offset()
    assert y.requires_grad and y.is_leaf and torch.equal(x, y)


def test_moved_tensor_is_a_copy():
    x = torch.ones(3)
    move_tensor(x, "cpu").zero_()
    assert x.sum() == 3


def test_moved_tensor_keeps_conjugate_and_negative_bits():
    x = torch.tensor([1 + 2j, 3 - 1j])
    assert move_tensor(x.conj(), "cpu").is_conj()
    negative = x.conj().imag
    assert negative.is_neg() and move_tensor(negative, "cpu").is_neg()
    assert torch.equal(move_tensor(negative, "cpu"), negative)


def test_moved_sample_asks_for_the_other_device():
    sample = SampleInput(torch.ones(2), kwargs={"device": "cpu", "n": [torch.ones(1)]})
    call = move_sample(sample, "meta")
    assert call.kwargs["device"] == "meta"
    assert call.input.device.type == call.kwargs["n"][0].device.type == "meta"


def test_sparse_sample_is_left_out():
    with pytest.raises(UnsupportedLayout):
        move_tensor(torch.eye(2).to_sparse(), "cpu")
    with pytest.raises(UnsupportedLayout):
        fetch([torch.eye(2).to_sparse()])


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        ([torch.ones(2)], [torch.ones(2), torch.ones(2)]),
        (torch.ones(2), 1.0),
    ],
)
def test_difference_in_form_is_found(got, want):
    assert compare.differ_in_form(got, want)


def test_difference_in_value_is_found():
    x = torch.ones(2)
    assert compare.differ_in_value([x, x + 1e-3], [x, x])
    assert compare.differ_in_value([x, x + 1e-6], [x, x]) is None
    assert compare.differ_in_value(torch.tensor([1]), torch.tensor([2]))
    assert compare.differ_in_value(3, 4)


def test_difference_in_one_bit_is_found():
    x = torch.tensor([1.0])
    assert compare.differ_in_bits(torch.nextafter(x, x + 1), x)
    assert compare.differ_in_bits(torch.tensor([-0.0]), torch.tensor([0.0]))
    assert compare.differ_in_bits(x, x.clone()) is None


def test_nan_agrees_with_nan():
    x = torch.tensor([float("nan")])
    assert compare.differ_in_value(x, x.clone()) is None
    assert compare.differ_in_bits(x, x.clone()) is None


def test_full_names_are_unique_and_every_mode_occurs():
    found = {
        t.mode for op in triple.ops_by_name().values() for t in triple.triples_of(op)
    }
    assert found == set(triple.MODES)


def test_samples_are_the_same_every_time():
    op = triple.ops_by_name()["add"]
    one = Triple("add", "float32", "noncontiguous")
    first, second = (worker.samples_of(op, one, 3) for _ in range(2))
    assert torch.equal(first[1].input, second[1].input)


def test_wrong_result_fails(monkeypatch: pytest.MonkeyPatch):
    """An op that gives something else on each call is not counted; a wrong device is."""
    op = triple.ops_by_name()["add"]
    right = worker.run_all

    def wrong(*args):
        return [compare.tree_flatten(r)[0][0] + 1 for r in right(*args)]

    monkeypatch.setattr(worker, "run_all", wrong)
    answer = worker.outcome_of(op, Triple("add", "float32", "forward"), 2, "cpu")
    assert answer["outcome"] == "fail"


def test_crash_and_later_triples_are_told_apart():
    with tempfile.TemporaryFile("w") as log:
        one = sweep.Worker("cpu", 1, log)
        broken = one.ask(Triple("no.such.op", "float32", "forward"))
        sound = one.ask(Triple("neg", "float32", "forward"))
        assert one.close() is None
    assert broken["outcome"] == "fail" and "crashes" in broken["error"]
    assert sound == {"outcome": "pass"}


def test_exclusion_needs_a_reason(tmp_path: pathlib.Path):
    path = tmp_path / "exclusions.toml"
    path.write_text('[[exclusion]]\nop = "add"\nreason = " "\n')
    with pytest.raises(ValueError, match="add"):
        sweep.read_exclusions(path)


def test_exclusion_covers_what_it_names():
    one = sweep.Exclusion(
        "add", frozenset({"float32"}), frozenset({"*"}), "for ever: a test", run=True
    )
    assert one.covers(Triple("add", "float32", "out"))
    assert not one.covers(Triple("add", "int8", "out"))
    assert not one.covers(Triple("sub", "float32", "out"))


def test_listed_failure_does_not_count_as_passing():
    failing = Triple("add", "float32", "out")
    listed = sweep.Exclusion(
        "add", frozenset({"*"}), frozenset({"*"}), "for ever: a test", run=True
    )
    report = sweep.Report({failing: {"outcome": "fail"}}, [listed], [])
    assert report.unlisted() == [] and report.passing() == []
    assert report.counted() == [failing]


def test_committed_exclusions_name_ops_that_exist():
    names = triple.ops_by_name()
    path = pathlib.Path(sweep.__file__).with_name("exclusions.toml")
    assert all(e.op in names for e in sweep.read_exclusions(path))
