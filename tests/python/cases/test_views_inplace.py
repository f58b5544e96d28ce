"""Order of reads and writes: a later in-place write must not leak into an
earlier read, and a write through a view must reach every alias."""

import torch

from device_under_test import both_raise, check, inp, ref


@ref("pytorch/pytorch#198131")
def test_copy_then_source_changes():
    def f(dev):
        dst = torch.zeros(3, 4, device=dev)
        src = torch.arange(12.0, device=dev).view(3, 4)
        dst[0:, :] = src[0:, :]
        src.add_(1)
        return dst, src

    check(
        f,
        expect=[
            [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]],
            [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]],
        ],
    )


@ref("pytorch/pytorch#197829")
def test_shift_rows_through_clone():
    def f(dev):
        x = torch.arange(20.0).view(5, 4).to(dev)
        x[1:] = x[:-1].clone()
        big = inp(257, 129, seed=1).to(dev)
        big[1:] = big[:-1].clone()
        return x[:, 0], big

    check(f, exact=True)
    assert f("cpu")[0].tolist() == [0.0, 0.0, 4.0, 8.0, 12.0]


@ref("pytorch/pytorch#198270")
def test_index_put_then_add_flipped_self():
    def f(dev):
        x = inp(6, 8, seed=2).to(dev)
        x.index_put_((torch.arange(6, device=dev),), x * 2.0)
        x.add_(x.flip(0))
        return x

    check(f, exact=True)


@ref("pytorch/pytorch#94777")
def test_result_survives_overwritten_operand():
    def f(dev):
        x = torch.tensor([3.0, 1.5], device=dev)
        y = torch.log(x)
        x.log_()
        z = x.exp()
        x.zero_()
        return y, z, x

    check(f, expect=[[1.0986123, 0.4054651], [3.0, 1.5], [0.0, 0.0]])


@ref("pytorch/pytorch#122457")
def test_real_and_complex_views_of_one_buffer():
    def f(dev):
        z = torch.view_as_complex(torch.zeros(4, 2, device=dev) + 1)
        out = torch.view_as_real(z) + 1
        return out, torch.view_as_real(z + 1)

    check(f, expect=[[[2.0, 2.0]] * 4, [[2.0, 1.0]] * 4])


@ref("pytorch/pytorch#145203")
def test_column_xor_int16():
    def f(dev):
        z = torch.zeros(10, 2, dtype=torch.int16, device=dev)
        z[:, 0] ^= 1
        z[3:, 1] |= 6
        return z

    check(f, expect=[[1, 0]] * 3 + [[1, 6]] * 7)


@ref("pytorch/pytorch#17935", "pytorch/pytorch#4664")
def test_write_to_expanded_is_refused():
    def f(dev):
        y = torch.tensor(0.5, device=dev).expand(3)
        return y.cos_()

    def g(dev):
        b = torch.ones(1, 1, device=dev).expand(4, 5)
        b += 1
        return b

    both_raise(f, RuntimeError)
    both_raise(g, RuntimeError)


@ref("pytorch/pytorch#152425")
def test_write_one_element_of_expanded():
    def f(dev):
        base = torch.arange(2, device=dev)
        outs = []
        for i in range(2):
            a = base[i].expand(2)
            a[-1] = 3
            outs.append(a.clone())
        return outs, base

    check(f, expect=[[[3, 3], [3, 3]], [3, 3]])


@ref("pytorch/pytorch#183986")
def test_index_write_out_of_place_on_expanded():
    def f(dev):
        base = torch.zeros(1, 4, device=dev).expand(3, -1)
        idx = torch.tensor([0, 2], device=dev)
        src = torch.ones(2, 4, device=dev)
        return (
            base.index_add(0, idx, src),
            base.index_copy(0, idx, src * 2),
            base.index_fill(0, idx, 5.0),
            torch.index_put(base, (idx,), src * 3),
        )

    got = check(f)
    assert got[0].to("cpu")[:, 0].tolist() == [1.0, 0.0, 1.0]


@ref("pytorch/pytorch#138908")
def test_fancy_index_plus_equals_itself():
    def f(dev):
        y = inp(2, 32, seed=5).to(dev)
        i = torch.tensor([[0, 1]], device=dev)
        y[i] += y[i]
        return y

    check(f, exact=True)


@ref("pytorch/xla#2964", "pytorch/pytorch#120585")
def test_as_strided_shares_storage_and_sees_whole_storage():
    def f(dev):
        t = torch.ones(4, device=dev)
        s = t.as_strided((2,), (2,))
        s[0] = -1
        x = torch.arange(10, device=dev)
        back = x[2:].as_strided((10,), (1,), 0)
        back[0] = 99
        return t, s, back, x

    check(
        f,
        expect=[
            [-1.0, 1.0, 1.0, 1.0],
            [-1.0, 1.0],
            [99] + list(range(1, 10)),
            [99] + list(range(1, 10)),
        ],
    )


@ref("pytorch/xla#3392")
def test_data_swap_leaves_old_views_alone():
    def f(dev):
        x = torch.zeros(10, device=dev)
        y = x.view(-1)
        x.data = y[:5] + 1
        x.add_(1)
        return x, y

    check(f, expect=[[2.0] * 5, [0.0] * 10])


@ref("pytorch/xla#4189")
def test_ring_buffer_written_over_many_steps():
    def f(dev):
        buf = torch.zeros(4, 2, device=dev)
        total = torch.zeros(2, device=dev)
        for i in range(11):
            row = torch.full((2,), float(i), device=dev)
            with torch.no_grad():
                buf[i % 4] = row
            total += buf.mean(0)
        return buf, total

    check(f, expect=[[[8.0, 8.0], [9.0, 9.0], [10.0, 10.0], [7.0, 7.0]], [41.0, 41.0]])


@ref("pytorch/xla#3529")
def test_looking_twice_does_not_update_twice():
    def f(dev):
        b = torch.tensor(1, device=dev)
        b += torch.tensor(1, device=dev)
        seen = [b.item() for _ in range(5)]
        return seen, b

    check(f, expect=[[2] * 5, 2])


@ref("pytorch/pytorch#182822", "pytorch/pytorch#82663")
def test_bool_views_and_zero_dim_views():
    def f(dev):
        base = torch.tensor([True, False], device=dev)
        a = torch.tensor([True, False, True], device=dev)
        b = base[1]
        col = torch.tensor([[True], [False]], device=dev).expand(2, 2)
        row = torch.tensor([False, True], device=dev).expand(2, 2)
        return a & b, a | b, a ^ b, col.clone(), row.clone(), torch.equal(col, row)

    check(
        f,
        expect=[
            [False] * 3,
            [True, False, True],
            [True, False, True],
            [[True, True], [False, False]],
            [[False, True], [False, True]],
            False,
        ],
    )


@ref("pytorch/pytorch#165409", "pytorch/pytorch#183888")
def test_abs_in_place_on_overlapping_windows():
    def f(dev):
        y = torch.linspace(-6, 6, 7, device=dev).reshape(1, 7)
        z = y.unfold(1, 4, 2)
        z.abs_()
        return z, y

    check(
        f,
        expect=[
            [[[6.0, 4.0, 2.0, 0.0], [2.0, 0.0, 2.0, 4.0]]],
            [[6.0, 4.0, 2.0, 0.0, 2.0, 4.0, 6.0]],
        ],
    )


@ref("huggingface/optimum-habana#961", "microsoft/DirectML#696")
def test_element_loops():
    def f(dev):
        x = torch.arange(10, device=dev)
        a = [x[i].clone() for i in range(10)]
        feat = torch.arange(9.0, device=dev).view(3, 3)
        ker = torch.arange(4.0, device=dev).view(2, 2)
        out = torch.zeros(2, 2, device=dev)
        for i in range(2):
            for j in range(2):
                out[i, j] = (feat[i : i + 2, j : j + 2] * ker).sum()
        return a, out

    check(f, expect=[list(range(10)), [[19.0, 25.0], [37.0, 43.0]]])


@ref("pytorch/pytorch#93259")
def test_shape_changed_in_place():
    def f(dev):
        x = torch.arange(6.0, device=dev).view(2, 3)
        v = x[0]
        x.unsqueeze_(0)
        x.transpose_(0, 2)
        x[0, 1, 0] = 50.0
        return x, v, tuple(x.shape), tuple(x.stride())

    check(f, strides=True)


@ref("pytorch/pytorch#77750")
def test_compare_two_slices_of_one_tensor():
    def f(dev):
        t = torch.tensor([1, 2, 3, 4], device=dev)
        return t[2:] <= t[:2], t[1:] > t[:-1], t[::2] == t[1::2] - 1

    check(f, expect=[[False, False], [True] * 3, [True, True]])
