"""torch.func transforms."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from device_under_test import check, inp, module, ref


@ref("pytorch/functorch#1023", "pytorch/pytorch#140704")
def test_vmap_of_conv_and_losses():
    vmap = torch.func.vmap

    def f(dev):
        x = inp(3, 2, 4, 6, 6, seed=190).to(dev)
        y = inp(4, 5, seed=192).to(dev)
        return (
            vmap(lambda a, b: F.conv2d(a, b, groups=2))(
                x, inp(3, 4, 2, 3, 3, seed=191).to(dev)
            ),
            vmap(F.mse_loss, (0, None))(y, y[0]),
            vmap(torch.dot)(y, y),
            vmap(lambda t: t.sort().values[:2])(y),
            vmap(lambda t, i: t.gather(0, i[None]))(
                y, torch.tensor([0, 4, 2, 1], device=dev)
            ),
        )

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/functorch#847", "pytorch/functorch#842")
def test_jacobians_and_their_nesting():
    func = torch.func

    def f(dev):
        x = inp(5, 3, seed=193).to(dev)

        def one(t):
            return torch.linalg.norm(t, dim=0, keepdim=True)

        h = func.hessian(lambda t: (t**3).sum())(x[0])
        j = func.jvp(
            torch.cov, (inp(4, 2, seed=194).to(dev),), (inp(4, 2, seed=195).to(dev),)
        )
        return (
            func.vmap(func.jacrev(one))(x),
            func.vmap(func.jacfwd(one))(x),
            h,
            j,
            func.vmap(func.grad(lambda t: t.sin().sum()))(x),
        )

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#182842")
def test_ensemble_by_functional_call():
    func = torch.func

    def f(dev):
        nets = [
            module(
                lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)),
                dev,
                seed=s,
            )
            for s in range(3)
        ]
        params, buffers = func.stack_module_state(nets)
        base = nets[0]

        def call(p, b, x):
            return func.functional_call(base, (p, b), (x,))

        x = inp(5, 4, seed=196).to(dev)
        y = func.vmap(call, (0, 0, None))(params, buffers, x)
        u, du = func.jvp(
            lambda t: func.vmap(call, (0, 0, None))(params, buffers, t),
            (x,),
            (torch.ones_like(x),),
        )
        per = func.vmap(
            func.grad(lambda p, t: call(p, {}, t[None]).pow(2).sum()), (None, 0)
        )(dict(base.named_parameters()), x)
        return y, u, du, per

    check(f, rtol=1e-4, atol=1e-5)
