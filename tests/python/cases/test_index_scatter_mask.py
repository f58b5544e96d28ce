"""Gather, scatter, masks, and results whose size depends on the values."""

import pytest
import torch

from device_under_test import DUT, LARGE, both_raise, check, inp, ref


@ref("pytorch/pytorch#39227", "torch-spyre/torch-spyre#4411")
def test_accumulate_at_repeated_positions():
    def f(dev):
        a = torch.zeros(3, device=dev)
        a.index_put_(
            [torch.tensor([0, 0], device=dev)],
            torch.tensor(1.0, device=dev),
            accumulate=True,
        )
        cache = torch.zeros(8, 2, 3, device=dev)
        vals = torch.arange(24.0, device=dev).view(4, 2, 3)
        cache.index_put_((torch.tensor([5, 5, 5, 7], device=dev),), vals, accumulate=True)
        h = torch.zeros(4, dtype=torch.int64, device=dev)
        h.index_put_(
            (torch.tensor([1, 1, 3, 1], device=dev),),
            torch.tensor([10, 20, 5, 1], device=dev),
            accumulate=True,
        )
        return a, cache, h

    got = check(f)
    assert got[0].to("cpu").tolist() == [2.0, 0.0, 0.0]
    assert got[2].to("cpu").tolist() == [0, 31, 0, 5]


@ref("torch-spyre/torch-spyre#4351")
def test_scatter_reduce_with_collisions():
    def f(dev):
        dst = inp(6, 5, seed=40).to(dev)
        src = inp(9, 5, seed=41).to(dev)
        idx = torch.randint(0, 6, (9, 5), generator=torch.Generator().manual_seed(3)).to(
            dev
        )
        return [
            dst.scatter_reduce(0, idx, src, reduce=r, include_self=s)
            for r in ("sum", "prod", "mean", "amax", "amin")
            for s in (True, False)
        ] + [dst.scatter_add(0, idx, src), dst.index_add(1, idx[0], src[:6, :5], alpha=2)]

    check(f)


@ref("pytorch/pytorch#125100", "pytorch/pytorch#126919")
def test_mask_of_two_dimensions():
    def f(dev):
        x = torch.tensor([[1, 0, 2, 0, -100], [1, 0, 2, 0, -100]], device=dev)
        m = x > -1
        y = torch.tensor([[1, 2, 2], [1, 2, 3]], device=dev)
        y[y == 2] = -1
        y[:, 0][y[:, 0] > 0] += 10
        return (
            x[m],
            x.masked_select(m),
            y,
            x[m.nonzero(as_tuple=True)],
            x[:, m[0]],
            torch.where(m)[1],
        )

    check(
        f,
        expect=[
            [1, 0, 2, 0, 1, 0, 2, 0],
            [1, 0, 2, 0, 1, 0, 2, 0],
            [[11, -1, -1], [11, -1, 3]],
            [1, 0, 2, 0, 1, 0, 2, 0],
            [[1, 0, 2, 0]] * 2,
            [0, 1, 2, 3] * 2,
        ],
    )


@ref("pytorch/pytorch#181867", "intel/torch-xpu-ops#4396")
def test_masked_sizes_are_steady():
    def f(dev):
        n = 100003
        x = torch.arange(n, device=dev)
        m = (x * 7919 % 13) < 6
        want = m.sum().item()
        sizes = {int(x[m].numel()) for _ in range(20)} | {
            int(m.nonzero().shape[0]) for _ in range(5)
        }
        return (
            sizes == {want},
            x[m][-3:],
            torch.nonzero(torch.tensor([False, True, False, True, False], device=dev)),
        )

    check(f)


@ref("pytorch/pytorch#104879", "pytorch/pytorch#195595")
def test_unique_with_inverse():
    def f(dev):
        a = torch.tensor([[[0, 1]]], device=dev)
        keys = torch.tensor(
            [2**24 + 1, 2**24, 2**29 + 3, 2**24 + 1, 2**29 + 2, 5], device=dev
        )
        u, inv, cnt = torch.unique(keys, return_inverse=True, return_counts=True)
        rows = torch.tensor([[1, 2], [1, 2], [3, 4], [1, 2]], device=dev)
        return (
            a.unique(),
            u,
            inv,
            cnt,
            torch.equal(u[inv], keys),
            torch.unique(rows, dim=0, return_counts=True),
            torch.unique_consecutive(rows, dim=0, return_inverse=True),
            torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 1], device=dev)),
        )

    check(f)


@ref("pytorch/pytorch#175187")
def test_sort_and_special_functions_on_transposed():
    def f(dev):
        b = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]], device=dev)
        return (
            b.t().sort(0),
            b.t().argsort(1),
            torch.digamma(b.t()),
            torch.lgamma(b.t()),
            b.t().msort(),
            b.t().median(0).values,
            b[:, ::2].sort(1).values,
            b.t().flip(0).topk(1, 0).values,
            b.t().cummax(0).indices,
        )

    check(f)


@ref("pytorch/pytorch#150967", "pytorch/pytorch#85675")
def test_where_and_cat_with_transposed_parts():
    def f(dev):
        c = torch.tensor([[True, False], [True, True]], device=dev)
        t = torch.tensor([[0, 0], [5, 1]], device=dev)
        d = torch.arange(8.0, device=dev).view(2, 4)
        e = torch.arange(24.0, device=dev).view(2, 3, 4)
        return (
            torch.where(c.t(), t, 0),
            torch.where(c.t(), t.t(), -t),
            torch.cat([d[:, :2], torch.rot90(d[:, 2:])]),
            torch.stack((-e[..., 1::2], e[..., ::2]), -1).flatten(-2),
            torch.cat([e.transpose(1, 2), e.transpose(1, 2)[:, :1]], 1),
        )

    check(f)


@ref("pytorch/pytorch#166237")
def test_index_copy_and_take():
    def f(dev):
        x = inp(5, 3, seed=43).to(dev)
        p = torch.tensor([3, 0, 4], device=dev)
        y = x.index_copy(0, p, x[:3] * 10)
        return (
            y,
            y.index_fill(1, torch.tensor([2], device=dev), 0.5),
            x.take(torch.tensor([14, 0, 7], device=dev)),
            x.put(
                torch.tensor([1, 14], device=dev), torch.tensor([9.0, 8.0], device=dev)
            ),
            x[[-1, 0]],
            x[..., [1]],
            x[p][:, [2, 0]],
            x[-1:, None],
        )

    check(f)


@ref("pytorch/pytorch#123119")
def test_out_of_range_index_is_an_error():
    both_raise(
        lambda dev: torch.arange(3, device=dev)[torch.tensor([3], device=dev)],
        (IndexError, RuntimeError),
    )
    both_raise(
        lambda dev: torch.zeros(3, device=dev).index_select(
            0, torch.tensor([5], device=dev)
        ),
        (IndexError, RuntimeError),
    )
    both_raise(
        lambda dev: torch.zeros(3, 2, device=dev).gather(
            1, torch.tensor([[2]] * 3, device=dev)
        ),
        (IndexError, RuntimeError),
    )


@ref("pytorch/pytorch#182052", "pytorch/pytorch#153560")
def test_offsets_past_two_gibi_elements():
    if not LARGE:
        pytest.skip("set DUT_LARGE=1 (about 2.5 GiB)")
    n = 2**31 + 4096
    x = torch.zeros(n, dtype=torch.uint8, device=DUT)
    x[2**31 + 7] = 5
    x[-1] = 9
    x.view(-1, 2)[-2:, 1].add_(1)
    assert x[2**31 + 7].item() == 5 and x[-1].item() == 10 and x[7].item() == 0
    assert int(x[2**31 :].sum()) == 5 + 10 + 1
