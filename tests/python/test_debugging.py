"""Looking at values in the middle of a window changes no later bit."""

import io
import pdb
import sys

import pytest
import torch

from device_under_test import DUT, inp

pytestmark = pytest.mark.usefixtures("mode")


def chain(look=lambda tensor: None) -> list[torch.Tensor]:
    """A chain of reductions, products and roundings; `look` is called in the middle."""
    torch.manual_seed(3)
    x = inp(17, 33, seed=5).to(DUT)
    look(x)
    y = torch.nn.functional.gelu(x @ x.mT / 33)
    look(y)
    y[1:, ::2] *= 0.5
    look(y)
    z = torch.nn.functional.dropout(y.softmax(-1).bfloat16(), 0.2)
    look(z)
    w = (z.float().exp() - y.sum(0, keepdim=True)).requires_grad_()
    loss = (w.tanh() * torch.randn(17, 17, device=DUT)).mean()
    look(loss)
    loss.backward()
    look(w.grad)
    return [t.detach().cpu() for t in (y, z, w, loss, w.grad)]


def watch_attributes(tensor: torch.Tensor) -> None:
    """What a debugger's variables pane does: read every attribute, print every repr."""
    for name in dir(tensor):
        if not name.startswith("__"):
            try:
                repr(getattr(tensor, name))
            except Exception:  # a debugger shows the error and goes on
                continue


def assert_finite(tensor: torch.Tensor) -> None:
    """An assertion on values, as scripts have it."""
    assert torch.isfinite(tensor.detach()).all()


def branch(tensor: torch.Tensor) -> None:
    """A decision that takes a value and does nothing with it."""
    if tensor.detach().float().sum() > 0:
        return


LOOKS = {
    "print": lambda t: print(t, file=io.StringIO()),
    "repr": repr,
    "str": str,
    "f_string": lambda t: f"{t}",
    "format_of_a_scalar": lambda t: f"{t.detach().float().mean():.3f}",
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t.detach().float().sum().item(),
    "float": lambda t: float(t.detach().float().max()),
    "bool": lambda t: bool(t.detach().isnan().any()),
    "len": lambda t: len(t.reshape(-1)),
    "if": branch,
    "assert": assert_finite,
    "allclose": lambda t: torch.allclose(t.detach(), t.detach().clone()),
    "equal": lambda t: torch.equal(t.detach(), t.detach().clone()),
    "cpu": lambda t: t.detach().cpu(),
    "numpy": lambda t: t.detach().float().cpu().numpy(),
    "save": lambda t: torch.save(t.detach(), io.BytesIO()),
    "iterate": lambda t: list(t.reshape(-1)[:3]),
    "contains": lambda t: 0.5 in t.detach(),
    "nonzero": lambda t: t.detach().nonzero(),
    "unique": lambda t: t.detach().float().unique(),
    "attributes": watch_attributes,
    "synchronize": lambda t: torch.accelerator.synchronize() if DUT != "cpu" else None,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_look_changes_no_later_bit(look):
    for seen, unseen in zip(chain(look), chain(), strict=True):
        assert torch.equal(seen, unseen)


def test_set_printoptions_changes_no_bit():
    torch.set_printoptions(precision=10, sci_mode=True, threshold=5)
    try:
        seen = chain(repr)
    finally:
        torch.set_printoptions(profile="default")
    for a, b in zip(seen, chain(), strict=True):
        assert torch.equal(a, b)


def test_printing_shows_the_value_of_that_moment():
    x = torch.zeros(2, device=DUT)
    first = repr(x)
    x.add_(1)
    assert "0., 0." in first
    assert "1., 1." in repr(x)


def test_stepping_in_a_debugger_changes_no_bit():
    """`pdb` steps through the chain line by line and prints its variables."""
    commands = io.StringIO("step\n" * 3 + "next\np x\np y\n" * 6 + "continue\n")
    debugger = pdb.Pdb(stdin=commands, stdout=io.StringIO(), nosigint=True, readrc=False)
    stepped = debugger.runcall(chain)
    for a, b in zip(stepped, chain(), strict=True):
        assert torch.equal(a, b)


def test_trace_function_that_reads_locals_changes_no_bit():
    def trace(frame, event, arg):
        if frame.f_code is chain.__code__:
            for value in list(frame.f_locals.values()):
                repr(value)
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        traced = chain()
    finally:
        sys.settrace(before)
    for a, b in zip(traced, chain(), strict=True):
        assert torch.equal(a, b)


def test_exception_in_user_code_leaves_the_device_sound():
    def raise_once(tensor: torch.Tensor) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        chain(raise_once)
    for a, b in zip(chain(), chain(), strict=True):
        assert torch.equal(a, b)


def test_wrong_call_leaves_the_window_sound():
    x = torch.ones(3, device=DUT)
    y = x + 1
    with pytest.raises(RuntimeError):
        y @ torch.ones(4, device=DUT)
    y.mul_(3)
    assert y.tolist() == [6.0] * 3


@pytest.mark.parametrize(
    ("call", "exception"),
    [
        (lambda a: a + torch.ones(4, device=a.device), RuntimeError),
        (lambda a: a @ torch.ones(4, 4, device=a.device), RuntimeError),
        (lambda a: a.view(2, 2), RuntimeError),
        (lambda a: a.sum(5), IndexError),
        (lambda a: torch.cat([a, a[None]]), RuntimeError),
        (lambda a: a[7], IndexError),
        (lambda a: a.add_(1j), RuntimeError),
        (lambda a: a.double().fill_(a), RuntimeError),
        (
            lambda a: torch.nn.functional.linear(a, a.new_ones(2, 2)),
            RuntimeError,
        ),
        (lambda a: torch.zeros(3, device=a.device, dtype=torch.int64) @ a, RuntimeError),
        (lambda a: torch.ones(2, 3, device=a.device).item(), RuntimeError),
        (lambda a: bool(torch.ones(2, device=a.device)), RuntimeError),
        (
            lambda a: torch.add(
                a, a, out=torch.ones(3, dtype=torch.int32).to(a)[:0].int()
            ),
            RuntimeError,
        ),
    ],
)
def test_error_at_the_call_has_cpus_type_and_wording(call, exception):
    messages = []
    for device in ("cpu", DUT):
        try:
            call(torch.ones(3, device=device))
        except exception as error:
            messages.append((type(error), str(error).replace(DUT, "cpu")))
        else:
            messages.append(None)
    assert messages[0] == messages[1]


def test_tensors_of_two_devices_are_refused():
    if DUT == "cpu":
        pytest.skip("for ever: asks for two devices, the device under test is CPU")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=DUT) + torch.ones(3)
