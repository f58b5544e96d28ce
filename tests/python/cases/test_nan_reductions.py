"""NaN and infinity in comparisons and reductions."""

import torch

from device_under_test import check, ref

NAN, INF = float("nan"), float("inf")


@ref("pytorch/pytorch#130295", "pytorch/pytorch#118266")
def test_max_min_and_their_positions():
    def f(dev):
        t = torch.tensor([1.0, NAN, 3.0, NAN], device=dev)
        m = torch.tensor(
            [[1.0, 5.0, 2.0], [NAN, 7.0, INF], [-INF, -INF, -1.0]], device=dev
        )
        return (
            t.max(),
            t.min(),
            t.argmax(),
            t.argmin(),
            m.argmax(1),
            m.argmin(0),
            m.max(1).values,
            m.max(1).indices,
            m.amax(0),
            m.amin(1),
            torch.aminmax(m, dim=1),
        )

    check(f)


@ref("pytorch/pytorch#143976", "pytorch/pytorch#93784")
def test_maximum_minimum_and_friends():
    def f(dev):
        a = torch.tensor([NAN, 1.0, INF, -0.0], device=dev)
        b = torch.tensor([0.0, NAN, 2.0, 0.0], device=dev)
        h = a.half()
        return (
            torch.maximum(a, b),
            torch.minimum(a, b),
            torch.fmax(a, b),
            torch.fmin(a, b),
            torch.relu(a),
            torch.maximum(h, b.half()),
            a.clamp_min(0.5),
            torch.clamp_min(a, b),
            a.clamp_max(0.5),
        )

    check(f)


@ref("pytorch/pytorch#93784")
def test_half_clamp_keeps_nan():

    def f(dev):
        h = torch.tensor([NAN, 1.0, INF, -3.0], dtype=torch.float16, device=dev)
        return (
            h.clamp_min(0.5),
            torch.clamp_min(h, torch.zeros(4, dtype=torch.float16, device=dev)),
            torch.relu(h),
        )

    check(f)


@ref("pytorch/pytorch#120899", "pytorch/pytorch#122710")
def test_clamp_keeps_nan():
    def f(dev):
        t = torch.tensor([NAN, 1.0, 2.0, INF, -INF], device=dev)
        return (
            t.clamp(-100, 100),
            t.clamp(min=-100),
            t.clamp(max=100),
            t.clamp(0, 1),
            t.clamp(3, 2),
            t.clamp(min=NAN),
        )

    check(f)


@ref("pytorch/pytorch#90273")
def test_reductions_of_integers():
    def f(dev):
        t = torch.tensor([0, 1, 2, 3, 4], device=dev)
        big = torch.tensor([2**62, 2**62, -5], device=dev)
        return (
            t.max(),
            t.min(),
            t.sum(),
            t.prod(),
            t.argmax(),
            t.to(torch.int8).sum(),
            t.bool().sum(),
            big.sum(),
            big.max(),
            t.float().mean(),
            t.to(torch.uint8).max(),
        )

    check(f)


@ref("pytorch/pytorch#139446")
def test_special_reductions():
    def f(dev):
        m = torch.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]], device=dev)
        return (
            m.sum(1),
            m.nansum(1),
            m.mean(0),
            m.nanmean(1),
            m.std(1),
            m.var(0, unbiased=False),
            m.isnan().any(1),
            (m > 0).all(0),
            m.logsumexp(1),
            m.softmax(1),
            m.norm(dim=1),
            m.nanmedian(),
            torch.nan_to_num(m, 9.0),
            m[1].cumsum(0),
            m.cummax(1).values,
            m.prod(1),
        )

    check(f)


@ref("pytorch/pytorch#156707")
def test_softmax_and_logs_at_the_edges():
    def f(dev):
        x = torch.tensor(
            [[-INF, 0.0, 1000.0], [-INF, -INF, -INF], [0.0, 0.0, 0.0]], device=dev
        )
        return (
            x.softmax(1),
            x.log_softmax(1),
            torch.log1p(torch.tensor([-1.0, -2.0, 1e-9], device=dev)),
            x.exp(),
            (x * 0),
        )

    check(f)


@ref("pytorch/pytorch#196030")
def test_zeros_of_both_signs():
    def f(dev):
        z = torch.tensor([0.0, -0.0], device=dev)
        return (
            1.0 / z,
            torch.sign(z),
            z * -1,
            z + 0.0,
            z.abs(),
            torch.copysign(torch.ones(2, device=dev), z),
            z.sqrt(),
            z == 0,
        )

    check(f)


@ref("pytorch/pytorch#178013")
def test_float_division_and_remainder_by_zero():
    def f(dev):
        a = torch.tensor([1.0, 0.0, -1.0], device=dev)
        return a / 0, a // 0, a % 0, torch.fmod(a, 0.0), torch.remainder(a, INF), a**-1

    check(f)
