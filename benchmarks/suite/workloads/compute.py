"""Scripts whose time goes into arithmetic and memory traffic."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import ints, jit, normal, workload
from ._gpt import GPT


@workload("compute", random=True, tol=0.02)
def ln_gelu_dropout(device):
    torch.manual_seed(20)

    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.norm = nn.LayerNorm(d)
            self.scale = nn.Parameter(torch.ones(d))
            self.drop = nn.Dropout(0.1)

        def forward(self, x):
            return x + self.drop(F.gelu(self.norm(x)) * self.scale)

    model = Block(1024).to(device)
    net = jit(model)
    xs = normal(device, 2, 8, 256, 1024, seed=21)

    def step(x):
        loss = net(x).pow(2).mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.01)
        return loss.detach()

    return step, [(x,) for x in xs]


@workload("compute")
def softmax_xent(device):
    logits = normal(device, 256, 32000, seed=22).requires_grad_()
    labels = ints(device, 32000, 256, seed=23)

    def loss_fn(z, y):
        p = torch.softmax(z, -1)
        return F.cross_entropy(z, y) + 1e-3 * (p * p).sum(-1).mean()

    f = jit(loss_fn)

    def step():
        logits.grad = None
        loss = f(logits, labels)
        loss.backward()
        with torch.no_grad():
            logits.sub_(logits.grad, alpha=10.0)
        return loss.detach()

    return step


@workload("compute")
def gpt_small_train(device):
    torch.manual_seed(24)
    model = GPT(vocab=512, d=256, heads=8, layers=4, length=128).to(device)
    net = jit(model)
    opt = torch.optim.AdamW(
        model.parameters(), lr=6e-4, weight_decay=0.1, betas=(0.9, 0.95)
    )
    text = ints(device, 512, 4, 8, 129, seed=25)

    def step(x, y):
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach()

    return step, [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in text]


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.b1, self.b2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = (
            nn.Identity()
            if cin == cout and stride == 1
            else nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )
        )

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)), inplace=True)
        return F.relu(self.b2(self.c2(y)) + self.skip(x))


@workload("compute", tol=5e-3)
def resnet_cifar(device):
    torch.manual_seed(26)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 32, 1),
        Residual(32, 64, 2),
        Residual(64, 64, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).to(device)
    net = jit(model)
    opt = torch.optim.SGD(
        model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    xs, ys = normal(device, 4, 16, 3, 32, 32, seed=27), ints(device, 10, 4, 16, seed=28)

    def step(x, y):
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, list(zip(xs, ys, strict=True))


@workload("compute")
def encoder_infer(device):
    torch.manual_seed(29)
    layer = nn.TransformerEncoderLayer(
        512, 8, 1024, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
    )
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(device).eval()
    net = jit(model)
    xs = normal(device, 3, 4, 128, 512, seed=30)
    total = torch.zeros((), device=device)

    @torch.no_grad()
    def step(x):
        total.add_(net(x).abs().mean())
        return total

    return step, [(x,) for x in xs]


@workload("compute")
def adamw_10m(device):
    """The optimiser alone: 60 tensors, 10 million parameters."""
    params = [
        nn.Parameter(normal(device, 408, 408, seed=100 + i, scale=0.02))
        for i in range(60)
    ]
    for i, p in enumerate(params):
        p.grad = normal(device, 408, 408, seed=200 + i, scale=1e-3)
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.01)
    update = jit(opt.step)

    def step():
        update()
        return params[0].detach().square().mean()

    return step


@workload("compute")
def gnn_edges(device):
    """Two rounds of message passing on 2000 nodes and 20000 edges, by index_add."""
    torch.manual_seed(31)
    nodes, edges, d = 2000, 20000, 32
    src, dst = ints(device, nodes, edges, seed=32), ints(device, nodes, edges, seed=33)
    degree = (
        torch.zeros(nodes, device=device)
        .index_add_(0, dst, torch.ones(edges, device=device))
        .clamp(min=1)
    )

    class Round(nn.Module):
        def __init__(self):
            super().__init__()
            self.msg, self.upd = nn.Linear(2 * d, d), nn.Linear(2 * d, d)

        def forward(self, h):
            m = F.relu(self.msg(torch.cat([h[src], h[dst]], -1)))
            gate = torch.sigmoid((h[src] * h[dst]).sum(-1, keepdim=True) / math.sqrt(d))
            agg = torch.zeros_like(h).index_add(0, dst, m * gate) / degree[:, None]
            return h + torch.tanh(self.upd(torch.cat([h, agg], -1)))

    model = nn.Sequential(Round(), Round(), nn.Linear(d, 4)).to(device)
    net = jit(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    x, y = normal(device, nodes, d, seed=34), ints(device, 4, nodes, seed=35)

    def step():
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step
