"""Plain and adaptive eager, reports, op tracking, strict modes and knobs."""

import importlib
import os

import pytest
import torch

from device_under_test import DUT, only_neuron, run_script

pytestmark = only_neuron

HERE = os.path.basename(__file__)


@pytest.fixture(autouse=True)
def _plain_again():
    """Leaves the mode as it was found."""
    before = torch.neuron.is_adaptive_eager() if DUT != "cpu" else False
    yield
    if DUT != "cpu":
        torch.neuron.set_adaptive_eager(before)


@pytest.fixture
def tracking():
    """The package, with op tracking cleared."""
    package = importlib.import_module("torch_neuronx")
    torch.neuron.synchronize()
    package.clear_op_tracking()
    return package


def work() -> torch.Tensor:
    """A few ops, nothing read."""
    x = torch.arange(12.0, device=DUT).view(3, 4)
    return (x @ x.mT).tanh().sum(-1)


def test_switch_on_and_off():
    torch.neuron.set_adaptive_eager(True)
    assert torch.neuron.is_adaptive_eager()
    torch.neuron.set_adaptive_eager(False)
    assert not torch.neuron.is_adaptive_eager()


def test_context_manager_restores_the_mode():
    torch.neuron.set_adaptive_eager(False)
    with torch.neuron.adaptive_eager(enabled=True):
        assert torch.neuron.is_adaptive_eager()
        with torch.neuron.adaptive_eager(enabled=False):
            assert not torch.neuron.is_adaptive_eager()
        assert torch.neuron.is_adaptive_eager()
    assert not torch.neuron.is_adaptive_eager()


def test_context_manager_is_on_by_default():
    with torch.neuron.adaptive_eager():
        assert torch.neuron.is_adaptive_eager()


def test_context_manager_restores_after_an_exception():
    torch.neuron.set_adaptive_eager(False)
    with pytest.raises(ZeroDivisionError), torch.neuron.adaptive_eager(enabled=True):
        raise ZeroDivisionError
    assert not torch.neuron.is_adaptive_eager()


def test_context_manager_works_as_a_decorator():
    @torch.neuron.adaptive_eager(enabled=True)
    def inside() -> bool:
        return torch.neuron.is_adaptive_eager()

    torch.neuron.set_adaptive_eager(False)
    assert inside() and not torch.neuron.is_adaptive_eager()


def test_switch_refuses_what_is_no_bool():
    with pytest.raises(TypeError):
        torch.neuron.set_adaptive_eager("yes")


def test_switching_in_the_middle_changes_no_bit():
    torch.neuron.set_adaptive_eager(False)
    want = work().exp().cpu()
    torch.neuron.set_adaptive_eager(True)
    x = work()
    torch.neuron.set_adaptive_eager(False)
    assert torch.equal(x.exp().cpu(), want)


@pytest.mark.parametrize(("value", "want"), [("1", "True"), ("0", "False")])
def test_environment_chooses_the_mode(value: str, want: str):
    done = run_script(
        "import torch; print(torch.neuron.is_adaptive_eager())",
        env={"NEURON_ADAPTIVE_EAGER": value},
    )
    assert done.stdout.split() == [want], done.stderr[-2000:]


def test_plain_eager_is_the_default():
    source = (
        "import os; os.environ.pop('NEURON_ADAPTIVE_EAGER', None)\n"
        "import torch; print(torch.neuron.is_adaptive_eager())"
    )
    assert run_script(source).stdout.split() == ["False"]


def difference(after: dict, before: dict) -> dict:
    """What a report's table of counts gained."""
    return {
        key: count - before.get(key, 0)
        for key, count in after.items()
        if count != before.get(key, 0)
    }


def counts(table: dict | list) -> dict:
    """A table of the report as reason (or line, or op) and count."""
    if isinstance(table, dict):
        return dict(table)
    found = {}
    for row in table:
        place = max(i for i, item in enumerate(row) if isinstance(item, int))
        found[":".join(str(i) for i in row[:place] + row[place + 1 :])] = row[place]
    return found


def report() -> dict:
    """A copy of the report as it is now."""
    now = torch.neuron.window_report()
    tables = {key: counts(now[key]) for key in ("ends", "lines", "host_ops")}
    return {"windows": now["windows"], "ops": now["ops"], **tables}


def test_report_has_the_documented_keys():
    now = torch.neuron.window_report()
    assert isinstance(now["windows"], int)
    assert isinstance(now["ops"], int)
    for key in ("ends", "lines", "host_ops"):
        assert isinstance(now[key], dict)


def test_report_prints():
    work().cpu()
    text = str(torch.neuron.window_report())
    assert "window" in text


def test_report_counts_ops():
    torch.neuron.synchronize()
    before = report()
    work()
    torch.neuron.synchronize()
    assert report()["ops"] - before["ops"] >= 4


def test_adaptive_window_holds_many_ops():
    with torch.neuron.adaptive_eager(enabled=True):
        torch.neuron.synchronize()
        before = report()
        work()
        torch.neuron.synchronize()
        after = report()
    assert after["windows"] - before["windows"] < after["ops"] - before["ops"]


def test_every_window_ends_for_one_reason():
    with torch.neuron.adaptive_eager(enabled=True):
        torch.neuron.synchronize()
        before = report()
        work().cpu()
        work().sum().item()
        work()
        torch.neuron.synchronize()
        after = report()
    ends = difference(after["ends"], before["ends"])
    assert sum(ends.values()) == after["windows"] - before["windows"]


@pytest.mark.parametrize(
    "end",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: bool(x.any()),
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: x.nonzero(),
        lambda x: torch.neuron.synchronize(),
    ],
    ids=["item", "cpu", "bool", "tolist", "repr", "nonzero", "synchronize"],
)
def test_end_of_a_window_is_counted_with_its_python_line(end):
    with torch.neuron.adaptive_eager(enabled=True):
        torch.neuron.synchronize()
        x = work()
        before = report()
        end(x)
        after = report()
    assert difference(after["ends"], before["ends"])
    lines = difference(after["lines"], before["lines"])
    assert any(HERE in line for line in lines), lines


def test_executed_ops_are_tracked(tracking):
    work().cpu()
    assert any("tanh" in str(op) for op in tracking.get_executed_ops())


def test_fallback_ops_are_tracked(tracking):
    torch.linalg.svdvals(torch.eye(3, device=DUT)).cpu()
    assert any("svd" in str(op) for op in tracking.get_fallback_ops())


def test_clear_op_tracking_forgets(tracking):
    torch.linalg.svdvals(torch.eye(3, device=DUT)).cpu()
    tracking.clear_op_tracking()
    assert not list(tracking.get_executed_ops())
    assert not list(tracking.get_fallback_ops())


def test_host_ops_are_in_the_report():
    torch.neuron.synchronize()
    before = report()
    torch.linalg.svdvals(torch.eye(3, device=DUT)).cpu()
    gained = difference(report()["host_ops"], before["host_ops"])
    assert any("svd" in op for op in gained), gained


STRICT = """
import torch
x = torch.eye(3, device="neuron")
try:
    torch.linalg.svdvals(x).cpu()  # the line
    print("no error")
except RuntimeError as error:
    print("error", str(error).replace(chr(10), " "))
y = (x @ x).sum()
print(y.item())
"""


def test_strict_mode_names_op_and_python_line(tmp_path):
    script = tmp_path / "strict_script.py"
    script.write_text(STRICT)
    done = run_script(
        f"import runpy; runpy.run_path({str(script)!r})", env={"NEURON_STRICT": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first = done.stdout.splitlines()[0]
    assert first.startswith("error ")
    assert "svd" in first
    assert "strict_script.py:5" in first


def test_op_without_an_implementation_may_fall_back_where_only_such_may():
    done = run_script(
        STRICT, env={"TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS": "1"}
    )
    assert done.stdout.splitlines() == ["no error", "3.0"], done.stderr[-2000:]


def test_strict_mode_is_off_by_default():
    done = run_script(STRICT)
    assert done.stdout.splitlines() == ["no error", "3.0"], done.stderr[-2000:]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEURON_ADAPTIVE_EAGER", "maybe"),
        ("NEURON_LAUNCH_BLOCKING", "2"),
        ("NEURON_SIM_HBM_BYTES", "lots"),
        ("NEURON_SIM_HBM_BYTES", "-5"),
        ("NEURON_RT_NUM_CORES", "0"),
        ("NEURON_STRICT", "on-ish"),
    ],
)
def test_bad_value_of_a_knob_is_refused_by_name(name: str, value: str):
    done = run_script(
        "import torch, torch_neuronx\ntorch.ones(2, device='neuron').sum().item()",
        env={name: value},
    )
    assert done.returncode != 0
    assert name in done.stderr
    assert value in done.stderr


def test_bad_knob_does_not_break_import_torch():
    done = run_script(
        "import torch; print(torch.ones(2).sum().item())",
        env={"NEURON_ADAPTIVE_EAGER": "maybe"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["2.0"]


def test_unknown_variable_warns_with_the_nearest_name():
    done = run_script(
        "import torch; torch.ones(2, device='neuron').sum().item()",
        env={"NEURON_ADAPTIVE_EAGRE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "NEURON_ADAPTIVE_EAGRE" in done.stderr
    assert "NEURON_ADAPTIVE_EAGER" in done.stderr


def test_launch_blocking_gives_the_same_bits():
    source = (
        "import torch\n"
        "x = torch.arange(12.0, device='neuron').view(3, 4)\n"
        "print((x @ x.mT).tanh().softmax(-1).double().sum().item().hex())\n"
    )
    outputs = {
        run_script(source, env={"NEURON_LAUNCH_BLOCKING": value}).stdout
        for value in ("0", "1")
    }
    assert len(outputs) == 1 and outputs != {""}


def test_launch_blocking_raises_at_the_op():
    source = (
        "import torch\n"
        "x = torch.zeros(3, device='neuron')\n"
        "try: x.index_add_(0, torch.tensor([7], device='neuron'), x[:1])\n"
        "except (RuntimeError, IndexError): print('at the op')\n"
    )
    done = run_script(source, env={"NEURON_LAUNCH_BLOCKING": "1"})
    assert done.stdout.split("\n")[0] == "at the op", done.stderr[-2000:]


def test_deterministic_algorithms_keep_their_meaning():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.isnan(torch.empty(3, device=DUT)).all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_modes_are_exported_by_the_package_too(tracking):
    for name in ("set_adaptive_eager", "is_adaptive_eager", "adaptive_eager"):
        assert getattr(tracking, name) is getattr(torch.neuron, name)
