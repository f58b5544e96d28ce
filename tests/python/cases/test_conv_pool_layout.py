"""Convolution, pooling, resampling, padding - on awkward layouts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from device_under_test import both_raise, check, inp, module, ref

CL = torch.channels_last


@ref("pytorch/pytorch#82921", "pytorch/pytorch#188335")
def test_strided_dilated_grouped_convolutions():
    def f(dev):
        x1 = inp(2, 6, 41, seed=50).to(dev)
        x2 = inp(3, 8, 16, 9, seed=51).to(dev)
        return (
            F.conv1d(x1, inp(4, 6, 3, seed=52).to(dev), stride=2),
            F.conv1d(
                x1,
                inp(6, 2, 5, seed=53).to(dev),
                groups=3,
                dilation=2,
                padding=3,
                stride=3,
            ),
            F.conv2d(x2, inp(16, 1, 16, 1, seed=54).to(dev), groups=8),
            F.conv2d(
                x2,
                inp(4, 8, 3, 2, seed=55).to(dev),
                stride=(2, 3),
                padding=(2, 0),
                dilation=(1, 2),
            ),
            F.conv_transpose2d(
                x2,
                inp(8, 2, 3, 3, seed=56).to(dev),
                stride=2,
                padding=1,
                output_padding=1,
                groups=2,
            ),
            F.conv2d(x2, inp(4, 8, 3, 3, seed=57).to(dev), padding="same"),
        )

    check(f, rtol=1e-4, atol=1e-4)


@ref("pytorch/pytorch#180984", "pytorch/pytorch#174345")
def test_channels_last_slices_and_offsets():
    def f(dev):
        x = inp(2, 6, 5, 7, seed=60).to(dev).to(memory_format=CL)
        tok = (
            inp(1, 65, 8, seed=61).to(dev)[:, 1:].reshape(1, 8, 8, 8).permute(0, 3, 1, 2)
        )
        bn = module(lambda: nn.BatchNorm2d(8), dev).eval()
        return (
            F.conv2d(x[:, :3], inp(2, 3, 1, 1, seed=62).to(dev)),
            F.conv2d(x[:, 1:4], inp(2, 3, 3, 3, seed=63).to(dev)),
            bn(tok),
            F.avg_pool2d(tok, 2),
            F.max_pool2d(tok, 3, 2, 1),
            F.group_norm(tok, 4),
            F.interpolate(tok, scale_factor=2.0),
        )

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#133520", "pytorch/pytorch#134580")
def test_batch_norm_of_slices():
    def f(dev):
        x = inp(4, 10, 6, seed=64).to(dev)
        bn = module(lambda: nn.BatchNorm1d(5), dev)
        y1 = bn(x[:, 2:7])
        y2 = bn(x[:, ::2].flip(0))
        bn.eval()
        y3 = bn(x[:2, 5:])
        return y1, y2, y3, bn.running_mean, bn.running_var, bn.num_batches_tracked

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#175189")
def test_batch_norm_gradients_channels_last():
    def f(dev):
        bn = module(lambda: nn.BatchNorm2d(3), dev)
        x = inp(4, 3, 8, 8, seed=65).to(dev).to(memory_format=CL).requires_grad_()
        w = inp(4, 3, 8, 8, seed=66).to(dev)
        (bn(x) * w).sum().backward()
        return x.grad, bn.weight.grad, bn.bias.grad

    check(f, rtol=1e-3, atol=1e-4)


@ref("pytorch/pytorch#154882", "pytorch/pytorch#160743")
def test_pooling_with_ceil_mode():
    def f(dev):
        x = inp(1, 2, 5, 7, seed=69).to(dev)
        outs = [
            F.max_pool2d(
                inp(1, 1, 4, 6, seed=70).to(dev),
                1,
                2,
                0,
                ceil_mode=True,
                return_indices=True,
            )
        ]
        for cm in (False, True):
            for inc in (False, True):
                outs.append(F.avg_pool2d(x, 3, 2, 1, ceil_mode=cm, count_include_pad=inc))
            outs.append(
                F.max_pool2d(x, 3, 2, 1, dilation=1, ceil_mode=cm, return_indices=True)
            )
            outs.append(F.avg_pool1d(x[0], 3, 2, 1, ceil_mode=cm))
        outs += [
            F.adaptive_avg_pool2d(x, (3, 4)),
            F.adaptive_max_pool2d(x, 3, return_indices=True),
            F.avg_pool2d(x, 2, divisor_override=3),
            F.lp_pool2d(x.abs(), 2, 2),
        ]
        return outs

    check(f)


@ref("pytorch/pytorch#134430", "pytorch/pytorch#144245")
def test_resampling_modes():
    def f(dev):
        x = torch.arange(20.0, device=dev)[None, None]
        y = inp(1, 2, 5, 7, seed=71).to(dev)
        t = torch.tensor([[1.0], [2.0], [4.0]], device=dev)[:, None]
        return (
            F.interpolate(x, size=11, mode="nearest-exact"),
            F.interpolate(x, size=11, mode="nearest"),
            F.interpolate(t, 3, mode="linear", align_corners=True),
            F.interpolate(y, scale_factor=1.7, mode="bilinear", align_corners=False),
            F.interpolate(y, (9, 4), mode="bilinear", align_corners=True),
            F.interpolate(y, (3, 3), mode="bicubic"),
            F.interpolate(y, (2, 3), mode="bilinear", antialias=True),
            F.interpolate(y, (3, 3), mode="area"),
        )

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#174339", "pytorch/pytorch#23925")
def test_grid_sample_layouts_and_border_gradients():
    def f(dev):
        x = inp(1, 4, 8, 8, seed=73).to(dev)
        c = (torch.arange(8, device=dev) + 0.5) / 4 - 1
        grid = torch.stack(torch.meshgrid(c, c, indexing="ij")[::-1], -1)[None]
        outs = [
            F.grid_sample(x, grid, align_corners=False),
            F.grid_sample(x.to(memory_format=CL), grid, align_corners=False),
        ]
        image = torch.arange(5.0, device=dev).expand(1, 1, 5, 5).clone().requires_grad_()
        gid = (
            F.affine_grid(
                torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]], device=dev),
                (1, 1, 5, 5),
                align_corners=True,
            )
            .detach()
            .requires_grad_()
        )
        F.grid_sample(
            image, gid, padding_mode="border", align_corners=True
        ).sum().backward()
        return (
            outs,
            image.grad,
            gid.grad,
            [
                F.grid_sample(x, grid * 1.7, mode=m, padding_mode=p, align_corners=True)
                for m in ("bilinear", "nearest")
                for p in ("zeros", "border", "reflection")
            ],
        )

    check(f, rtol=1e-4, atol=1e-4)


@ref("pytorch/pytorch#169236")
def test_bad_arguments_are_refused():
    both_raise(
        lambda dev: F.conv_transpose2d(
            torch.ones(1, 1, 4, 4, device=dev),
            torch.ones(1, 1, 3, 3, device=dev),
            stride=1,
            output_padding=1,
        ),
        RuntimeError,
    )
    both_raise(
        lambda dev: F.pad(torch.ones(1, 1, 3, device=dev), (3, 3), mode="reflect"),
        RuntimeError,
    )
