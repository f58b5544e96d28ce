"""Forward mode, `torch.func`, and the functional interface of autograd."""

import pytest
import torch
from torch.autograd import forward_ad

from device_under_test import DUT, check, inp

pytestmark = pytest.mark.usefixtures("mode")

#: Gradients of short chains in float32, summed in another order than on CPU.
RTOL, ATOL = 1e-4, 1e-5


def test_forward_mode_agrees_with_cpu():
    def case(device):
        x, t = inp(3, 3, seed=1).to(device), inp(3, 3, seed=2).to(device)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            y = (dual @ dual.mT).tanh().sum(-1)
            return list(forward_ad.unpack_dual(y))

    check(case, rtol=RTOL, atol=ATOL)


def test_forward_over_reverse():
    def case(device):
        x, t = inp(4, seed=1).to(device), inp(4, seed=2).to(device)
        return torch.func.jvp(torch.func.grad(lambda v: (v.sin() ** 3).sum()), (x,), (t,))

    check(case, rtol=RTOL, atol=ATOL)


def test_func_grad_and_value():
    def case(device):
        x = inp(5).to(device)
        return torch.func.grad_and_value(lambda v: (v * v.cos()).sum())(x)

    check(case, rtol=RTOL, atol=ATOL)


def test_func_vmap_over_grad_gives_per_sample_gradients():
    def case(device):
        w = inp(3, 4, seed=1).to(device)
        x = inp(6, 4, seed=2).to(device)

        def loss(weight, row):
            return (weight @ row).tanh().sum()

        return torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)

    check(case, rtol=RTOL, atol=ATOL)


def test_func_vmap_with_random_differs_per_sample():
    torch.manual_seed(0)
    draws = torch.func.vmap(
        lambda x: x + torch.rand(4, device=DUT), randomness="different"
    )(torch.zeros(3, 4, device=DUT))
    assert len({tuple(row) for row in draws.tolist()}) == 3


def test_func_hessian_and_jacobians_agree():
    x = inp(4).to(DUT)

    def f(v):
        return (v**3).sum() * v.sum()

    hessian = torch.func.hessian(f)(x)
    torch.testing.assert_close(
        hessian.cpu(), torch.func.jacrev(torch.func.jacrev(f))(x).cpu()
    )


def test_func_functionalize():
    def f(v):
        y = v.clone()
        y[0].mul_(2)
        return y.add_(1)

    x = inp(3, 2).to(DUT)
    assert torch.equal(torch.func.functionalize(f)(x).cpu(), f(x).cpu())


def test_functional_jacobian_and_vjp():
    def case(device):
        x = inp(3).to(device)
        return (
            torch.autograd.functional.jacobian(torch.sin, x),
            torch.autograd.functional.vjp(torch.exp, x, torch.ones_like(x))[1],
        )

    check(case, rtol=RTOL, atol=ATOL)
