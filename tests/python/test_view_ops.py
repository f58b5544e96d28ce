"""Views that the device makes by itself: geometry, metadata, gradients and messages of
the CPU's."""

import re

import pytest
import torch

VIEWS = {
    "view": lambda t: t.view(6, 4),
    "view -1": lambda t: t.view(2, -1),
    "view of no dimension": lambda t: t[0, 0, 0].view(()),
    "reshape": lambda t: t.reshape(4, 6),
    "reshape that copies": lambda t: t.transpose(0, 2).reshape(-1),
    "t": lambda t: t[0].t(),
    "t of a vector": lambda t: t[0, 0].t(),
    "T": lambda t: t[1].T,
    "transpose": lambda t: t.transpose(0, -1),
    "transpose same": lambda t: t.transpose(1, 1),
    "permute": lambda t: t.permute(2, 0, -2),
    "select": lambda t: t.select(1, -1),
    "index": lambda t: t[1, 2],
    "slice": lambda t: t[:, 1:],
    "slice step": lambda t: t[..., ::3],
    "slice negative": lambda t: t[:, -2:-1],
    "slice beyond": lambda t: t[:, 2:100],
    "slice empty": lambda t: t[:, 3:2],
    "narrow": lambda t: t.narrow(2, 1, 2),
    "unsqueeze": lambda t: t.unsqueeze(-1),
    "unsqueeze first": lambda t: t.unsqueeze(0),
    "squeeze": lambda t: t[:1].squeeze(0),
    "squeeze nothing": lambda t: t.squeeze(1),
    "expand": lambda t: t[:, :1].expand(5, 2, 3, -1),
    "expand_as": lambda t: t[:1].expand_as(t),
    "chain": lambda t: t.permute(1, 2, 0)[1:].transpose(0, 1).unsqueeze(1)[..., 0],
    "diagonal after": lambda t: t.transpose(0, 1).diagonal(0, 0, 1),
}

BAD = {
    "view": lambda t: t.view(5, 5),
    "view two unknown": lambda t: t.view(-1, -1),
    "view layout": lambda t: t.transpose(0, 2).view(-1),
    "reshape": lambda t: t.reshape(7),
    "t": lambda t: t.t(),
    "transpose": lambda t: t.transpose(0, 3),
    "permute twice": lambda t: t.permute(0, 0, 1),
    "permute rank": lambda t: t.permute(0, 1),
    "select dim": lambda t: t.select(3, 0),
    "select index": lambda t: t.select(0, 2),
    "index": lambda t: t[0, 5],
    "slice step": lambda t: t[::-1],
    "slice dim": lambda t: torch.ops.aten.slice(t, 5),
    "unsqueeze": lambda t: t.unsqueeze(4),
    "squeeze": lambda t: t.squeeze(3),
    "expand": lambda t: t.expand(2, 2, 4),
    "expand rank": lambda t: t.expand(3, 4),
    "expand negative": lambda t: t.expand(-1, 2, 3, 4),
}


def base(device, **options):
    return torch.arange(24.0, **options).reshape(2, 3, 4).to(device)


def geometry(t):
    return t.size(), t.stride(), t.storage_offset(), t._is_view(), t.is_contiguous()


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("grad", [False, True])
def test_geometry_and_metadata(name, grad):
    made = {}
    for device in ("cpu", "neuron"):
        t = base(device).requires_grad_(grad)
        view = VIEWS[name](t)
        node = view.grad_fn.name() if view.grad_fn is not None else None
        shared = view._version == t._version
        made[device] = (*geometry(view), node, view.requires_grad, shared)
        assert view._base is None or view._base is t or view._is_view()
    assert made["neuron"] == made["cpu"]


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_of_two_orders(name):
    found = {}
    for device in ("cpu", "neuron"):
        t = base(device).requires_grad_()
        view = VIEWS[name](t * 1)
        (first,) = torch.autograd.grad((view**3).sum(), t, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), t)
        found[device] = (view.detach().cpu(), first.detach().cpu(), second.cpu())
    for ours, wanted in zip(found["neuron"], found["cpu"], strict=True):
        torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("name", VIEWS)
def test_forward_mode_and_vmap(name):
    found = {}
    for device in ("cpu", "neuron"):
        t = base(device)
        tangent = torch.func.jvp(VIEWS[name], (t,), (t + 1,))[1]
        many = torch.func.vmap(VIEWS[name])(torch.stack([t, t + 1]))
        found[device] = (tangent.cpu(), many.cpu())
    for ours, wanted in zip(found["neuron"], found["cpu"], strict=True):
        torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("name", BAD)
def test_messages(name):
    errors = {}
    for device in ("cpu", "neuron"):
        with pytest.raises((RuntimeError, IndexError, ValueError)) as error:
            BAD[name](base(device))
        # A message may name the type of the tensor, such as torch.FloatTensor{[2, 3, 4]}.
        errors[device] = (
            type(error.value),
            re.sub(r"\(\w[\w.]*\{", "({", str(error.value)),
        )
    assert errors["neuron"] == errors["cpu"]


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "reshape that copies"])
def test_write_through_a_view(name):
    found = {}
    for device in ("cpu", "neuron"):
        t = base(device)
        weight = torch.tensor(2.0, device=device, requires_grad=True)
        view = VIEWS[name](t)
        if view.numel() > view.untyped_storage().nbytes() // 4 or 0 in view.stride():
            pytest.skip("writes to an expanded tensor are refused by PyTorch")
        view.mul_(weight)  # makes the base need a gradient
        assert t.requires_grad == weight.requires_grad
        assert t._version == view._version
        (grad,) = torch.autograd.grad((t * t).sum(), weight)
        found[device] = (t.detach().cpu(), grad.cpu())
    for ours, wanted in zip(found["neuron"], found["cpu"], strict=True):
        torch.testing.assert_close(ours, wanted)


def test_view_made_without_grad_mode_refuses_writes_that_need_one():
    for device in ("cpu", "neuron"):
        t = base(device).requires_grad_() * 1
        with torch.no_grad():
            view = t[0]
        with pytest.raises(RuntimeError, match="no_grad mode"):
            view.mul_(2)


def test_view_of_a_leaf_refuses_writes():
    for device in ("cpu", "neuron"):
        t = base(device).requires_grad_()
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            t[0].mul_(2)


def test_version_is_checked_through_views():
    t = base("neuron").requires_grad_() * 1
    loss = (t * t).sum()
    t[0].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inference_tensors_have_no_metadata():
    with torch.inference_mode():
        t = base("neuron")
        assert t[0].is_inference()
        assert not t.view(-1)._is_view() or t.view(-1)._base is None
    assert t[0].is_inference()


def test_saved_values_of_nodes():
    t = base("neuron").requires_grad_()
    assert t.transpose(0, -1).grad_fn._saved_dim1 in (2, 2**64 - 1)
    assert t[1].grad_fn._saved_index == 1
    assert tuple(t.view(24).grad_fn._saved_self_sym_sizes) == (2, 3, 4)
    assert t[:, 1:3].grad_fn._saved_end == 3


def test_conjugated_and_complex_views():
    t = torch.randn(2, 3, dtype=torch.complex64)
    for make in (lambda t: t.conj().t(), lambda t: t.mH[0], lambda t: t.conj()[:, 1:]):
        torch.testing.assert_close(make(t.to("neuron")).cpu(), make(t))
