"""Tensors with no elements, and tensors with no dimensions."""

import torch
import torch.nn.functional as F

from device_under_test import both_raise, check, inp, ref


@ref("pytorch/pytorch#187399", "pytorch/pytorch#165237")
def test_products_with_an_empty_side():
    def f(dev):
        b = torch.baddbmm(
            torch.ones(2, 0, 1, device=dev),
            torch.ones(2, 0, 3, device=dev),
            torch.ones(2, 3, 1, device=dev),
            beta=0.5,
            alpha=100,
        )
        z = torch.ones(2, 3, device=dev)
        return (
            b,
            torch.rand(0, device=dev).dot(torch.rand(0, device=dev)),
            z[:, :0] @ z[:0],
            z[:0] @ z.t(),
            torch.addmm(z[:, :2], z[:, :0], torch.ones(0, 2, device=dev), beta=2),
            torch.bmm(z[None, :, :0], z[None, :0]),
        )

    check(f)


@ref("pytorch/pytorch#186972", "intel/intel-extension-for-pytorch#682")
def test_empty_index_is_a_no_op():
    def f(dev):
        x = torch.ones(0, 1, 1, 1, device=dev)
        scores = inp(1, 50, seed=30).to(dev)
        ids = torch.zeros(1, 0, dtype=torch.int64, device=dev)
        got = scores.gather(1, ids)
        none = torch.zeros(0, dtype=torch.int64, device=dev)
        return (
            torch.index_add(
                x,
                -3,
                torch.zeros(1, dtype=torch.int64, device=dev),
                torch.ones(0, 1, 1, 1, device=dev),
                alpha=-0.25,
            ),
            got,
            scores.scatter(1, ids, got),
            scores[:, none],
            scores.index_select(1, none),
        )

    check(f)


@ref("pytorch/pytorch#82541", "pytorch/pytorch#82531", "pytorch/pytorch#148589")
def test_backward_through_nothing():
    def f(dev):
        a = torch.zeros(1, 0, device=dev, requires_grad=True)
        b = torch.zeros(1, 0, device=dev, requires_grad=True)
        (a / b - a * b).sum().backward()
        p = torch.zeros(0, 3, device=dev, requires_grad=True)
        F.mse_loss(p, torch.zeros(0, 3, device=dev), reduction="sum").backward()
        return a.grad, b.grad, p.grad, F.mse_loss(p.detach(), p.detach())

    check(f)


@ref("pytorch/pytorch#139400")
def test_counting_in_an_empty_mask():
    def f(dev):
        x = torch.as_tensor([1, 2], device=dev)
        s = torch.stack([x / 2, x / 2], dim=-1)
        mask = x > torch.empty(0, 2, 2, device=dev)
        return mask, torch.count_nonzero(mask), mask.sum(), mask.any(), mask.all(), s

    check(f)


@ref("pytorch/pytorch#139446")
def test_identities_of_reductions():
    def f(dev):
        e = torch.zeros(0, 3, device=dev)
        return (
            e.sum(),
            e.prod(),
            e.sum(0),
            e.sum(1),
            e.mean(),
            e.mean(0),
            e.var(),
            e.any(),
            e.all(),
            e.norm(),
            e.logsumexp(0),
            e.amax(1),
        )

    check(f)
    both_raise(lambda dev: torch.zeros(0, device=dev).max(), (RuntimeError, IndexError))
    both_raise(
        lambda dev: torch.zeros(0, 3, device=dev).argmax(0), (RuntimeError, IndexError)
    )


@ref("pytorch/pytorch#85592", "pytorch/pytorch#86185")
def test_zero_dimensional_tensors():
    def f(dev):
        s = torch.tensor(3.0, device=dev)
        v = torch.arange(3.0, device=dev)
        w = v.clone()
        w[1] = s
        return (
            s + 1,
            s.view(1),
            s.expand(2),
            s.reshape(1, 1),
            v[s.long() - 1],
            w,
            s.sum(),
            s.max(),
            s.t(),
            s.squeeze(),
            s.unsqueeze(0),
            torch.stack([s, s]),
            s[None],
            s[...],
            v.sum() * s,
            float(s),
            int(s),
            bool(s),
            torch.atleast_2d(s),
            s.softmax(0),
            s.cumsum(0),
        )

    check(f)
