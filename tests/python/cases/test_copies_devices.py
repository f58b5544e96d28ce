"""Copies between host and device: strides, offsets, dtypes, lifetimes."""

import gc

import numpy as np
import torch

from device_under_test import DUT, ON_CPU, check, inp, ref, sync


@ref("pytorch/pytorch#99989", "pytorch/pytorch#108978", "pytorch/pytorch#86153")
def test_device_elements_written_into_host_tensor():
    def f(dev):
        mv = torch.arange(5, device=dev, dtype=torch.float32)
        cv = torch.zeros(5)
        ci = torch.zeros(5, dtype=torch.float64)
        for i in range(5):
            cv[i] = mv[i]
            ci[i] = mv[i].to(torch.int32)
        rows = torch.zeros(4, 4, 3)
        for i in range(4):
            for j in range(4):
                rows[i][j] = torch.full((3,), float(i * 4 + j), device=dev)
        return cv, ci, rows

    got = check(f, on_device=False)
    assert got[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert got[2][:, :, 0].flatten().tolist() == [float(i) for i in range(16)]


@ref("pytorch/pytorch#189563")
def test_converting_copy_leaves_source_alone():
    def f(dev):
        src = (torch.arange(8, dtype=torch.float32) + 0.25).to(dev)
        dst = torch.empty(10, dtype=torch.float16)[2:]
        dst.copy_(src)
        return dst, src

    check(f, expect=[[i + 0.25 for i in range(8)]] * 2, on_device=False)


@ref("pytorch/pytorch#189690", "pytorch/pytorch#139550")
def test_non_blocking_source_may_die_or_change():
    def f(dev):
        outs = []
        for i in range(20):
            x = torch.full((1024,), float(i))
            outs.append(x.to(dev, non_blocking=True))
            if i % 2:
                del x
                gc.collect()
        keep = torch.arange(4096.0)
        y = keep.to(dev, non_blocking=True, copy=True)
        sync()
        keep.fill_(-1)
        return torch.stack([o[::511].clone() for o in outs]), y

    got = check(f)
    assert got[1][5].item() == 5.0


@ref("pytorch/pytorch#193057", "pytorch/pytorch#187117", "pytorch/pytorch#191929")
def test_host_scalar_view_in_device_arithmetic():
    def f(dev):
        coeffs = torch.tensor([9.0, 2.0, 7.0])
        a = torch.full((2, 2), 4.0, device=dev)
        outs = [a * coeffs[i] for i in range(3)] + [coeffs[2] - a, a / coeffs[1]]
        b = a.clone()
        b.div_(coeffs[1])
        b += coeffs[2]
        return outs, b

    check(
        f,
        expect=[
            [
                [[36.0] * 2] * 2,
                [[8.0] * 2] * 2,
                [[28.0] * 2] * 2,
                [[3.0] * 2] * 2,
                [[2.0] * 2] * 2,
            ],
            [[9.0] * 2] * 2,
        ],
    )


@ref("pytorch/pytorch#85967", "pytorch/pytorch#86052", "pytorch/pytorch#85592")
def test_sliced_host_sources():
    def f(dev):
        a = np.arange(9).reshape(3, 3)[:, :2]
        t = torch.arange(6)
        s = t[1].detach()
        return (
            torch.tensor(a, device=dev),
            s.to(dev),
            t.view(2, 3)[:, 1:].to(dev),
            t.view(2, 3).t().to(dev),
        )

    check(
        f,
        expect=[[[0, 1], [3, 4], [6, 7]], 1, [[1, 2], [4, 5]], [[0, 3], [1, 4], [2, 5]]],
    )


@ref("pytorch/pytorch#86185")
def test_fill_slice_from_zero_dim_host_tensor():
    def f(dev):
        x = torch.ones(10, device=dev)
        x[:] = torch.tensor([4, 5])[1]
        x[2:5] = torch.tensor([7.5])
        return x

    check(f, expect=[[5.0, 5.0, 7.5, 7.5, 7.5, 5.0, 5.0, 5.0, 5.0, 5.0]][0])


@ref("pytorch/pytorch#95417", "pytorch/pytorch#94980")
def test_setitem_and_slices_across_dtypes():
    def f(dev):
        t = torch.zeros(5, device=dev)
        t[2:4] = torch.ones(2, device=dev).long()
        e = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 1]], device=dev).bool().nonzero()
        return t, e[:, 1].float(), e[0].float(), e.float()[:, 1], e[:, 1].to(torch.int16)

    check(
        f, expect=[[0.0, 0.0, 1.0, 1.0, 0.0], [2.0, 3.0], [0.0, 2.0], [2.0, 3.0], [2, 3]]
    )


@ref("pytorch/pytorch#193845")
def test_host_copy_round_trip_keeps_layout():
    def f(dev):
        x = inp(3, 4, 5, seed=12).permute(2, 0, 1).to(dev)
        y = x.to("cpu", non_blocking=True)
        sync()
        z = torch.empty_like(x, device="cpu")
        z.copy_(x)
        return y, z

    check(f, on_device=False, strides=True)


@ref("pytorch/pytorch#189563")
def test_cpu_copy_is_a_copy():
    x = torch.zeros(4, device=DUT)
    y = x.to("cpu") if not ON_CPU else x.clone()
    y += 1
    assert x.to("cpu").tolist() == [0.0] * 4
    assert x.to(x.device) is x
