"""Types of results, integer wrap-around, and where eager rounds."""

import torch

from device_under_test import DUT, both_raise, check, inp, ref, run_script


@ref("pytorch/pytorch#105264")
def test_uint8_wraps_before_it_widens():
    def f(dev):
        x = torch.tensor([128, 200, 3], dtype=torch.uint8, device=dev)
        y = torch.tensor([100, -100, 127], dtype=torch.int8, device=dev)
        return (
            (x + x).to(torch.int16),
            (x * 2 - 1).float(),
            (y + y).to(torch.int32),
            (-y).abs(),
        )

    check(f, expect=[[0, 144, 6], [255.0, 143.0, 5.0], [-56, 56, -2], [100, 100, 127]])


@ref("pytorch/pytorch#197895")
def test_float_floor_division_like_python():
    def f(dev):
        a = torch.tensor([1.0, 0.5, 6.0, -1.0, 5.0], dtype=torch.float64, device=dev)
        b = torch.tensor([0.1, 0.1, 0.2, 0.1, -2.0], dtype=torch.float64, device=dev)
        return (
            a // b,
            torch.div(a, b, rounding_mode="floor"),
            torch.div(a, b, rounding_mode="trunc"),
            a % b,
            torch.fmod(a, b),
        )

    got = check(f)
    assert got[0].to("cpu").tolist() == [
        1.0 // 0.1,
        0.5 // 0.1,
        6.0 // 0.2,
        -1.0 // 0.1,
        5.0 // -2.0,
    ]


@ref("pytorch/pytorch#178013")
def test_integer_division_by_zero():
    both_raise(
        lambda dev: torch.floor_divide(
            torch.tensor([0, 1], device=dev), torch.tensor([0, 0], device=dev)
        ),
        (RuntimeError, ZeroDivisionError),
    )


@ref("pytorch/pytorch#184406")
def test_integer_division_does_not_kill_the_process():
    script = (
        "import sys, torch\n"
        "d = sys.argv[1]\n"
        "x = torch.tensor([-2147483648, 7, -7], dtype=torch.int32, device=d)\n"
        "y = torch.tensor([-1, -2, 2], dtype=torch.int32, device=d)\n"
        "print((x // y)[1:].to('cpu').tolist(), (x % y)[1:].to('cpu').tolist())\n"
    )
    cpu = run_script(script, args=["cpu"])
    dut = run_script(script, args=[DUT])
    if cpu.returncode == 0:
        assert dut.returncode == 0, f"process ended with {dut.returncode}"
        assert dut.stdout == cpu.stdout
    # Where CPU itself traps, only 'no hang' is asked for.


@ref("pytorch/pytorch#185337")
def test_explicit_half_round_trip_rounds():
    def f(dev):
        x = (torch.arange(20, dtype=torch.float32).reshape(5, 4).t() / 7.0).to(dev)
        y = x.to(torch.float16).to(torch.float32)
        z = x.to(torch.bfloat16).float()
        return y, z, y - x, (x + x.half().float()).bfloat16().float()

    check(f, exact=True)


@ref("pytorch/pytorch#182225")
def test_bf16_rotary_embedding_rounds_after_every_op():
    def f(dev):
        q = inp(1, 2, 7, 16, seed=20, dtype=torch.bfloat16).to(dev)
        c = inp(1, 1, 7, 16, seed=21, dtype=torch.bfloat16).to(dev)
        s = inp(1, 1, 7, 16, seed=22, dtype=torch.bfloat16).to(dev)
        rot = torch.cat((-q[..., 8:], q[..., :8]), dim=-1)
        return (q * c) + (rot * s)

    check(f, exact=True)


@ref("pytorch/pytorch#136896", "pytorch/pytorch#186818")
def test_scalars_are_rounded_to_the_tensor_type():
    def f(dev):
        x = torch.tensor([9.734375], dtype=torch.float16, device=dev)
        y = torch.tensor(1.00048828125, device=dev)
        a = torch.tensor([0.1], dtype=torch.bfloat16, device=dev)
        return x * y.to(torch.float16), x * y, a * 3, a + 0.3, a - 1.7

    check(f, exact=True)


@ref("pytorch/pytorch#145466")
def test_floor_of_rounded_cosine():

    def f(dev):
        x = torch.tensor([0.01, 0.015, 0.02, 0.5, 3.0], dtype=torch.float16, device=dev)
        return torch.floor(torch.cos(x)), torch.ceil(torch.sin(x * 0) + 0)

    check(f, exact=True)


@ref("pytorch/pytorch#79835", "pytorch/pytorch#78879")
def test_mixed_operand_types():
    def f(dev):
        i32 = torch.arange(5, dtype=torch.int32, device=dev)
        fl = torch.arange(5, dtype=torch.float32, device=dev)
        bo = torch.tensor([True, False, True, False, True], device=dev)
        half = fl.half()
        zero_dim = torch.tensor(2.5, dtype=torch.float64, device=dev)
        return (
            i32 + 5,
            i32 + 0,
            fl * bo,
            fl + i32,
            i32 * 1.5,
            half + fl,
            half * zero_dim,
            i32 / 2,
            bo + bo,
            i32 + zero_dim,
            fl + i32.long(),
            torch.add(fl, i32, alpha=2),
            bo * 3,
            i32**2,
            2**i32,
            fl > i32,
        )

    check(f)


@ref("pytorch/pytorch#77849", "pytorch/pytorch#79286")
def test_conversions():
    def f(dev):
        t = torch.tensor([[0, 0], [0, 1], [300, -2]], device=dev)
        m = t > 0
        v = torch.tensor([-1.5, 1.999, 0.0, float("inf")], device=dev)
        return (
            t.float(),
            t.type(torch.float32),
            t.to(torch.int32),
            t.to(torch.int16),
            m.int(),
            m.float(),
            t.bool(),
            v.bool(),
            v[:3].int(),
            v[:3].to(torch.int8),
            t.double().half(),
        )

    check(f)


@ref("pytorch/pytorch#96614", "pytorch/pytorch#92329")
def test_cumulative_sums():
    def f(dev):
        b = inp(200, 2, seed=24, dtype=torch.bool).to(dev)
        x = inp(10, 2, seed=25).to(dev)
        five = torch.ones(1, 2, 3, 4, 5, device=dev)
        return (
            b.cumsum(0),
            x.cumsum(-1),
            five.cumsum(1),
            five.cumsum(-2),
            x.t().cumprod(0),
            b.cumsum(0, dtype=torch.int8),
        )

    check(f)


@ref("pytorch/pytorch#160208")
def test_addcmul_and_alpha_with_mixed_types():
    def f(dev):
        x = inp(3, 3, seed=26, dtype=torch.float16).to(dev)
        one = torch.ones(3, device=dev)
        i = torch.arange(9, device=dev).view(3, 3)
        return (
            x.addcmul(one, one),
            torch.addcmul(i, i, i, value=2),
            torch.sub(x, i, alpha=3),
            torch.rsub(i, 2),
        )

    check(f, rtol=1e-3, atol=1e-3)


@ref("intel/torch-xpu-ops#889")
def test_float_to_int8_in_range_truncates_toward_zero():
    def f(dev):
        return torch.tensor(
            [-2.0, -1.5, -0.5, 0.0, 0.5, 1.5, 2.0, 100.9, -127.9], device=dev
        ).to(torch.int8)

    check(f, expect=[-2, -1, 0, 0, 0, 1, 2, 100, -127])
