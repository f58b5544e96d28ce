"""Gradient bookkeeping, hooks, checkpointing, optimizers, mixed precision."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from device_under_test import (
    DUT,
    both_raise,
    check,
    grads,
    inp,
    module,
    ref,
)


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


@ref("pytorch/pytorch#100348", "pytorch/pytorch#11390")
def test_detach_and_no_grad_flags():
    def f(dev):
        x = torch.ones(4, 4, device=dev, requires_grad=True)
        loss = x.mean()
        d = loss.detach()
        with torch.no_grad():
            v = x[0]
            w = x * 2
            with torch.enable_grad():
                u = x + 1
        y = x * 2.0
        y.detach_()
        leaf = torch.zeros(3, device=dev, requires_grad=True)
        with torch.no_grad():
            leaf += 1
        return (
            [t.requires_grad for t in (loss, d, v, w, u, y, leaf)],
            leaf.is_leaf,
            d.detach(),
            y + 1,
        )

    check(f)
    both_raise(
        lambda dev: torch.zeros(3, device=dev, requires_grad=True).add_(1), RuntimeError
    )


@ref("pytorch/pytorch#46820", "pytorch/pytorch#117366")
def test_in_place_on_views_reaches_the_gradient():
    def f(dev):
        w = torch.ones(4, 3, device=dev, requires_grad=True)
        h = w * 2
        seen = []
        h.retain_grad()
        h[1:3, 0] = 5.0
        h[0].mul_(3)
        h.register_hook(lambda g: seen.append(g.clone()))
        h.t()[2] += w[:, 0]
        (h * torch.arange(12.0, device=dev).view(4, 3)).sum().backward()
        return w.grad, h.grad, seen

    check(f)


@ref("pytorch/pytorch#105834", "pytorch/pytorch#108409", "pytorch/pytorch#92206")
def test_double_backward_of_linear_and_conv():
    def f(dev):
        net = module(mlp, dev)
        x = inp(5, 6, seed=134).to(dev).requires_grad_()
        (g,) = torch.autograd.grad(net(x).pow(2).sum(), x, create_graph=True)
        ((g.norm(2, dim=1) - 1) ** 2).mean().backward()
        c = module(lambda: nn.Conv2d(2, 3, 3), dev)
        z = inp(1, 2, 6, 6, seed=135).to(dev).requires_grad_()
        (gz,) = torch.autograd.grad(c(z).relu().pow(2).sum(), z, create_graph=True)
        gz.pow(2).sum().backward()
        return grads(net), grads(c), x.grad, z.grad

    check(f, rtol=1e-3, atol=1e-4)


@ref("pytorch/pytorch#127676", "pytorch/pytorch#104478", "pytorch/xla#4690")
def test_checkpointed_dropout_replays_its_mask():
    lin = module(lambda: nn.Linear(32, 32), DUT)
    x = inp(16, 32, seed=136).to(DUT).requires_grad_()

    def block(t):  # the gradient shows which mask the recomputation drew
        return F.dropout(lin(t), 0.5).tanh()

    torch.manual_seed(5)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    got = (x.grad.clone(), lin.weight.grad.clone())
    x.grad = None
    lin.weight.grad = None
    torch.manual_seed(5)
    block(x).sum().backward()
    torch.testing.assert_close(got[0], x.grad)
    torch.testing.assert_close(got[1], lin.weight.grad)


@ref("pytorch/pytorch#118115", "pytorch/pytorch#118117")
def test_optimizers_on_transposed_parameters():
    makers = [
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, 0.05, amsgrad=True),
        lambda p: torch.optim.AdamW(p, 0.05, foreach=True),
        lambda p: torch.optim.AdamW(p, 0.05, foreach=False),
        lambda p: torch.optim.RMSprop(p, 0.02, centered=True),
        lambda p: torch.optim.Adagrad(p, 0.1),
        lambda p: torch.optim.Rprop(p, 0.1),
        lambda p: torch.optim.NAdam(p, 0.05),
        lambda p: torch.optim.Adadelta(p, 1.0),
        lambda p: torch.optim.Adamax(p, 0.05),
    ]

    def f(dev):
        outs = []
        for mk in makers:
            p = inp(2, 3, seed=137).to(dev).t().requires_grad_()
            q = inp(7, seed=138).to(dev).requires_grad_()
            opt = mk([p, q])
            for i in range(6):
                opt.zero_grad()
                ((p * p).sum() + (q - i).pow(2).mean()).backward()
                opt.step()
            outs += [p.detach().clone(), q.detach().clone()]
        return outs

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#189420")
def test_in_place_arithmetic_used_by_optimizers():
    def f(dev):
        x, y, z = (inp(3, 2, seed=s).to(dev).t() for s in (139, 140, 141))
        x.addcdiv_(y, z.abs() + 1, value=-0.5).addcmul_(y, z, value=2).lerp_(
            z, 0.25
        ).mul_(y).sub_(z, alpha=3)
        ts = [inp(4, seed=s).to(dev) for s in range(3)]
        torch._foreach_mul_(ts, 0.9)
        torch._foreach_add_(ts, [t * 2 for t in ts], alpha=0.1)
        torch._foreach_sqrt(torch._foreach_abs(ts))
        return x, ts

    check(f, rtol=1e-5, atol=1e-6)


@ref("pytorch/pytorch#184286")
def test_grad_scaler_with_low_precision_gradients():

    def f(dev):
        m = module(lambda: nn.Linear(8, 1), dev).to(torch.bfloat16)
        opt = torch.optim.SGD(m.parameters(), lr=0.01)
        sc = torch.amp.GradScaler(torch.device(dev).type, init_scale=2.0)
        x, y = (
            inp(16, 8, seed=142, dtype=torch.bfloat16).to(dev),
            inp(16, 1, seed=143, dtype=torch.bfloat16).to(dev),
        )
        losses = []
        for _ in range(20):
            opt.zero_grad()
            loss = ((m(x) - y) ** 2).mean()
            sc.scale(loss).backward()
            sc.step(opt)
            sc.update()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        return m.weight

    check(f, rtol=5e-2, atol=5e-2)


@ref("pytorch/pytorch#144022")
def test_grad_scaler_skips_a_step_with_infinities():

    def f(dev):
        p = torch.ones(4, device=dev, requires_grad=True)
        opt = torch.optim.SGD([p], lr=0.1)
        sc = torch.amp.GradScaler(torch.device(dev).type, init_scale=1024.0)
        scales = []
        for bad in (False, True, False):
            opt.zero_grad()
            loss = (p * (float("inf") if bad else 1.0)).sum()
            sc.scale(loss).backward()
            sc.unscale_(opt)
            sc.step(opt)
            sc.update()
            scales.append(sc.get_scale())
        return p, scales

    got = check(f)
    assert got[1] == [1024.0, 512.0, 512.0]


@ref("pytorch/pytorch#112583", "pytorch/pytorch#158232")
def test_autocast_cache_across_no_grad_and_updates():
    def f(dev):
        kind = torch.device(dev).type
        l1 = module(lambda: nn.Linear(4, 4), dev)
        x = inp(2, 4, seed=144).to(dev)
        with torch.autocast(kind, dtype=torch.bfloat16):
            with torch.no_grad():
                l1(x)
            y = l1(x)
        with torch.no_grad():
            l1.weight.zero_()
            l1.bias.zero_()
        with torch.autocast(kind, dtype=torch.bfloat16):
            z = l1(x)
            e = x.exp()
            m = x @ x.t()
        return y.grad_fn is not None, z, e.dtype, m.dtype, z.dtype

    got = check(f)
    assert float(got[1].abs().sum()) == 0.0


@ref("pytorch/pytorch#116255")
def test_hooks_and_tied_weights_after_move():
    def f(dev):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(3, 3, bias=False)
                self.weight = self.a.weight

            def forward(self, x):
                return self.a(x) @ self.weight

        m = module(Tied, dev)
        log = []
        h1 = m.a.register_forward_hook(
            lambda mod, i, o: log.append(("fwd", tuple(o.shape)))
        )
        h2 = m.register_full_backward_hook(
            lambda mod, gi, go: log.append(("bwd", tuple(go[0].shape)))
        )
        p = next(m.parameters())
        p.register_hook(lambda g: g * 2)
        m(inp(2, 3, seed=145).to(dev).requires_grad_()).sum().backward()
        h1.remove()
        h2.remove()
        twin = copy.deepcopy(m)
        return (
            m.weight is m.a.weight,
            twin.weight is twin.a.weight,
            twin.weight is not m.weight,
            log,
            m.weight.grad,
            len(list(m.parameters())),
        )

    check(f, rtol=1e-4, atol=1e-5)
