"""Complex numbers (lazy conjugation), Fourier transforms, linear algebra."""

import torch

from device_under_test import check, inp, ref

C64 = torch.complex64


@ref("pytorch/pytorch#148156", "pytorch/pytorch#148599")
def test_conjugate_views_in_products():
    def f(dev):
        r = torch.tensor([[0.6047 + 1.1093j]], device=dev)
        a, b = (
            inp(3, 3, seed=110, dtype=C64).to(dev),
            inp(3, 3, seed=111, dtype=C64).to(dev),
        )
        return (
            r.T.conj() @ r,
            torch.mm(a, b.conj()),
            torch.mm(a, torch.conj_physical(b)),
            a.mH @ b,
            torch.vdot(a[0], b[0]),
        )

    got = check(f, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[1].to("cpu"), got[2].to("cpu"))


@ref("pytorch/pytorch#184379", "pytorch/pytorch#126643")
def test_parts_and_magnitudes():
    def f(dev):
        x = torch.complex(
            torch.tensor([1.0, 3.0], device=dev), torch.tensor([2.0, 4.0], device=dev)
        )
        c = x.conj()
        z = inp(6, seed=112, dtype=C64).to(dev)
        w = x.clone()
        w.conj().imag.mul_(2)
        w.real += 1
        return (
            c.imag,
            c.real,
            c.resolve_conj().imag,
            z.abs(),
            z[1::2].abs(),
            z.angle(),
            torch.view_as_real(z),
            c.is_conj(),
            z * z.conj(),
            w,
            z.sgn(),
        )

    check(f, rtol=1e-4, atol=1e-6)


@ref("pytorch/pytorch#124096")
def test_round_trips_of_real_transforms():
    def f(dev):
        outs = []
        for n in (5, 6, 17):
            t = torch.linspace(0, 1, n, device=dev)
            s = torch.fft.rfft(t)
            outs += [s, torch.fft.irfft(s, n), torch.fft.ifft(torch.fft.fft(t)).real]
        x = inp(2, 6, 8, seed=113).to(dev)
        outs += [
            torch.fft.rfft2(x),
            torch.fft.irfft2(torch.fft.rfft2(x), s=(6, 8)),
            torch.fft.fftshift(x, (1, 2)),
            torch.fft.fft(x.transpose(1, 2), norm="ortho"),
            torch.fft.fftfreq(7, device=dev),
        ]
        return outs

    check(f, rtol=1e-4, atol=1e-4)


@ref("pytorch/pytorch#78044")
def test_stft_and_gradients_through_fft():
    def f(dev):
        x = inp(1, 400, seed=114).to(dev).requires_grad_()
        win = torch.hann_window(64, device=dev)
        s = torch.stft(x, 64, 16, window=win, return_complex=True)
        y = torch.istft(s, 64, 16, window=win, length=400)
        (s.abs().pow(2).mean() + (y - 1).pow(2).sum()).backward()
        return s, y, x.grad

    check(f, rtol=1e-3, atol=1e-4)


@ref("pytorch/pytorch#165850")
def test_factorisations_reassemble():
    def f(dev):
        a = inp(3, 5, 5, seed=115).to(dev)
        spd = a @ a.transpose(1, 2) + 5 * torch.eye(5, device=dev)
        ch = torch.linalg.cholesky(spd)
        q, r = torch.linalg.qr(a)
        u, s, vh = torch.linalg.svd(a)
        w, v = torch.linalg.eigh(spd)
        return (
            ch,
            q @ r,
            s,
            u @ torch.diag_embed(s) @ vh,
            w,
            v @ torch.diag_embed(w) @ v.transpose(1, 2),
            torch.linalg.solve(spd, a),
            torch.cholesky_solve(a, ch),
            torch.linalg.matrix_power(a, 3),
            torch.linalg.pinv(a[:, :3]),
            torch.linalg.norm(a, dim=(1, 2)),
            torch.linalg.matrix_rank(a),
        )

    check(f, rtol=1e-3, atol=1e-3)
