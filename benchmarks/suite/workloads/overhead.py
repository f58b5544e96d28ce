"""Scripts of many small ops: the time goes into Python and dispatch, not arithmetic."""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import ints, jit, normal, workload
from ._gpt import GPT, decode


@workload("overhead")
def mlp_adam(device):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    ).to(device)
    net = jit(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    xs = normal(device, 8, 64, 16, seed=2)
    ys = xs.sin().sum(-1, keepdim=True)

    def step(x, y):
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, list(zip(xs, ys, strict=True))


@workload("overhead")
def lstm_unrolled(device):
    torch.manual_seed(2)
    n_in, n_hid, steps = 8, 32, 32
    w = nn.Parameter((torch.randn(n_in + n_hid, 4 * n_hid) / math.sqrt(n_hid)).to(device))
    b = nn.Parameter(torch.zeros(4 * n_hid).to(device))
    head = nn.Linear(n_hid, 1).to(device)
    opt = torch.optim.SGD([w, b, *head.parameters()], lr=0.05, momentum=0.9)

    def cell(x, h, c):
        i, f, g, o = (torch.cat([x, h], 1) @ w + b).chunk(4, 1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    cell_ = jit(cell)

    def step(x, y):
        h = torch.zeros(x.shape[1], n_hid, device=x.device)
        c = torch.zeros_like(h)
        for t in range(steps):
            h, c = cell_(x[t], h, c)
        loss = ((head(h) - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    xs = normal(device, 4, steps, 16, n_in, seed=3)
    ys = xs.mean((1, 3)).unsqueeze(-1) * 4
    return step, list(zip(xs, ys, strict=True))


@workload("overhead")
def ode_rk4(device):
    torch.manual_seed(3)
    field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
    f = jit(field)
    opt = torch.optim.Adam(field.parameters(), lr=3e-3)
    h = 0.05
    y0 = normal(device, 16, 2, seed=4)
    a = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]).to(device)
    target = y0 @ torch.linalg.matrix_exp(a.cpu().T * h * 40).to(device)

    def step():
        y = y0
        for _ in range(40):
            k1 = f(y)
            k2 = f(y + h / 2 * k1)
            k3 = f(y + h / 2 * k2)
            k4 = f(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        loss = (y - target).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step


@workload("overhead")
def md_lennard_jones(device):
    n, box, dt = 64, 4.8, 0.002
    grid = torch.cartesian_prod(*[torch.arange(4.0)] * 3) * 1.2
    x = (grid + normal("cpu", n, 3, seed=5, scale=0.03)).to(device)
    v = normal(device, n, 3, seed=6, scale=0.5)
    far = (torch.eye(n) * 1e6).to(device)

    def energy(x):
        d = x[:, None] - x[None]
        d = d - box * torch.round(d / box)
        r2 = (d * d).sum(-1) + far
        s6 = 1 / r2**3
        return 2 * (s6 * s6 - s6).sum()

    energy_ = jit(energy)

    def force(x):
        x = x.detach().requires_grad_()
        e = energy_(x)
        return e.detach(), -torch.autograd.grad(e, x)[0]

    state = [x, v, force(x)[1]]

    def step():
        x, v, a = state
        for _ in range(20):
            v = v + 0.5 * dt * a
            x = x + dt * v
            e, a = force(x)
            v = v + 0.5 * dt * a
        state[:] = x, v, a
        return e + 0.5 * (v * v).sum()

    return step


@workload("overhead")
def gpt_tiny_train(device):
    torch.manual_seed(4)
    model = GPT(vocab=96, d=64, heads=4, layers=4, length=32).to(device)
    net = jit(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    text = ints(device, 96, 8, 4, 33, seed=7)

    def step(x, y):
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach()

    return step, [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in text]


@workload("overhead")
def gpt_decode(device):
    torch.manual_seed(5)
    model = GPT(vocab=256, d=128, heads=4, layers=4, length=80).to(device).eval()
    net = jit(model)
    prompt = ints(device, 256, 8, 1, 8, seed=8)

    @torch.no_grad()
    def step(p):
        _tokens, score = decode(net, p, 64)
        return score

    return step, [(p,) for p in prompt]


@workload("overhead", random=True, tol=0.35, check=8)
def ppo_vector_env(device):
    """16 steps in 32 pendulums, advantages, then three epochs of two minibatches."""
    torch.manual_seed(6)
    n, horizon = 32, 16
    actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 3)).to(device)
    critic = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    act, val = jit(actor), jit(critic)
    opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
    torque = torch.tensor([-2.0, 0.0, 2.0]).to(device)
    theta, omega = normal(device, n, seed=9, scale=1.5), normal(device, n, seed=10)
    state = [theta, omega]

    def observe():
        theta, omega = state
        return torch.stack([torch.cos(theta), torch.sin(theta), omega / 8], 1)

    def play(a):
        theta, omega = state
        u = torque[a]
        angle = (theta + math.pi) % (2 * math.pi) - math.pi
        reward = -(angle**2 + 0.1 * omega**2 + 0.001 * u**2)
        omega = (omega + (15 * torch.sin(theta) + 3 * u) * 0.05).clamp(-8, 8)
        state[:] = theta + omega * 0.05, omega
        return reward / 10

    def step():
        seen, acted, logps, rewards, values = [], [], [], [], []
        with torch.no_grad():
            for _ in range(horizon):
                o = observe()
                pi = torch.distributions.Categorical(logits=act(o), validate_args=False)
                a = pi.sample()
                seen.append(o)
                acted.append(a)
                logps.append(pi.log_prob(a))
                values.append(val(o).squeeze(-1))
                rewards.append(play(a))
            nxt = val(observe()).squeeze(-1)
            gain, gains = torch.zeros_like(nxt), []
            for r, v in zip(reversed(rewards), reversed(values), strict=True):
                delta = r + 0.97 * nxt - v
                gain = delta + 0.97 * 0.9 * gain
                gains.append(gain)
                nxt = v
            adv = torch.stack(gains[::-1]).flatten()
            obs, a, old = (
                torch.stack(seen).flatten(0, 1),
                torch.stack(acted).flatten(),
                torch.stack(logps).flatten(),
            )
            ret = adv + torch.stack(values).flatten()
            adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        total = 0
        for _ in range(3):
            for idx in torch.randperm(obs.shape[0], device=device).chunk(2):
                logp = F.log_softmax(act(obs[idx]), -1)
                ratio = torch.exp(logp.gather(1, a[idx, None]).squeeze(1) - old[idx])
                gain = torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx])
                entropy = -(logp.exp() * logp).sum(-1).mean()
                loss = (
                    -gain.mean()
                    + 0.5 * F.mse_loss(val(obs[idx]).squeeze(-1), ret[idx])
                    - 0.01 * entropy
                )
                opt.zero_grad()
                loss.backward()
                opt.step()
                total = total + loss.detach()
        return total / 6

    return step


@workload("overhead")
def line_search(device):
    """Logistic regression; the step length is found by reading the loss on the host."""
    x = normal(device, 128, 10, seed=11)
    truth = normal(device, 10, seed=12)
    y = (x @ truth + normal(device, 128, seed=13, scale=0.5) > 0).float()

    def objective(w):
        z = x @ w
        return (F.softplus(z) - y * z).mean() + 0.01 * (w * w).sum()

    f = jit(objective)

    def step():
        w = torch.zeros(10, device=device)
        for _ in range(12):
            w.requires_grad_()
            loss = f(w)
            (g,) = torch.autograd.grad(loss, w)
            w = w.detach()
            with torch.no_grad():
                slope = (g * g).sum()
                if slope < 1e-6:
                    break
                t = 8.0
                while f(w - t * g) > loss - 0.4 * t * slope:
                    t *= 0.5
                w = w - t * g
        return loss.detach()

    return step


@workload("overhead", random=True, tol=0.05)
def vae_small(device):
    torch.manual_seed(7)

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
            self.mu, self.logvar = nn.Linear(48, 8), nn.Linear(48, 8)
            self.dec = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

        def forward(self, x):
            h = self.enc(x)
            mu, logvar = self.mu(h), self.logvar(h)
            z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
            return self.dec(z), mu, logvar

    model = VAE().to(device)
    net = jit(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    xs = (normal(device, 8, 64, 64, seed=14) > 0).float()

    def step(x):
        logits, mu, logvar = net(x)
        recon = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = (recon + kl) / x.shape[0]
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, [(x,) for x in xs]


@workload("overhead")
def batch_sizes(device):
    """Every batch has another size, 17 to 64."""
    torch.manual_seed(8)
    model = nn.Sequential(
        nn.Linear(20, 64),
        nn.LayerNorm(64),
        nn.GELU(),
        nn.Linear(64, 64),
        nn.GELU(),
        nn.Linear(64, 5),
    ).to(device)
    net = jit(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    sizes = list(range(17, 65))
    random.Random(0).shuffle(sizes)
    return step, [
        (normal(device, n, 20, seed=n), ints(device, 5, n, seed=n)) for n in sizes
    ]


@workload("overhead")
def lr_schedule(device):
    """Warm-up then cosine: the learning rate is another Python float in every step."""
    torch.manual_seed(9)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 8)
    ).to(device)
    net = jit(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda t: (
            min(1, (t + 1) / 100) * 0.5 * (1 + math.cos(math.pi * min(t, 50000) / 50000))
        ),
    )
    xs = normal(device, 8, 32, 32, seed=15)
    ys = torch.tanh(xs[..., :8] * 2)

    def step(x, y):
        loss = F.smooth_l1_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach()

    return step, list(zip(xs, ys, strict=True))


@workload("overhead", random=True, tol=0.5, check=10)
def hmc_logistic(device):
    """Hamiltonian Monte Carlo on a logistic regression, 10 leapfrog steps a proposal."""
    torch.manual_seed(10)
    x = normal(device, 100, 6, seed=16)
    y = (x.sum(-1) > 0).float()

    def potential(q):
        z = x @ q
        return (F.softplus(z) - y * z).sum() + 0.5 * (q * q).sum()

    u = jit(potential)

    def grad_u(q):
        q = q.detach().requires_grad_()
        e = u(q)
        return torch.autograd.grad(e, q)[0], e.detach()

    eps = 0.08
    state = [torch.zeros(6, device=device)]

    def step():
        q0 = q = state[0]
        p0 = p = torch.randn(6, device=device)
        g, u0 = grad_u(q)
        for _ in range(10):
            p = p - 0.5 * eps * g
            q = q + eps * p
            g, u1 = grad_u(q)
            p = p - 0.5 * eps * g
        log_accept = u0 + 0.5 * p0.dot(p0) - u1 - 0.5 * p.dot(p)
        accept = torch.rand((), device=device).log() < log_accept
        state[0] = torch.where(accept, q, q0)
        return torch.where(accept, u1, u0)

    return step


def attention_by_hand(x, w_qkv, w_out, heads):
    b, t, d = x.shape
    q, k, v = (x @ w_qkv).view(b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) / math.sqrt(d // heads)
    scores = scores.masked_fill(
        torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf")
    )
    scores = scores - scores.amax(-1, keepdim=True)
    p = scores.exp()
    p = p / p.sum(-1, keepdim=True)
    return (p @ v).transpose(1, 2).reshape(b, t, d) @ w_out


def attention_fit(device, dtype, seed):
    d, heads = 64, 4
    w1 = normal(device, d, 3 * d, seed=seed, scale=d**-0.5, dtype=dtype).requires_grad_()
    w2 = normal(device, d, d, seed=seed + 1, scale=d**-0.5, dtype=dtype).requires_grad_()
    xs = normal(device, 4, 2, 32, d, seed=seed + 2, dtype=dtype)
    f = jit(attention_by_hand)

    def step(x):
        loss = (f(x, w1, w2, heads) - x.roll(1, 1)).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for w in (w1, w2):
                w -= 0.1 * w.grad
                w.grad = None
        return loss.detach()

    return step, [(x,) for x in xs]


@workload("overhead", tol=2e-2)
def attention_bf16(device):
    return attention_fit(device, torch.bfloat16, 20)


@workload("overhead")
def hand_adam_ema(device):
    """A hand-written in-place optimiser and an average of the weights, as in papers."""
    torch.manual_seed(11)
    model = nn.Sequential(
        *[m for _ in range(6) for m in (nn.Linear(24, 24), nn.Tanh())], nn.Linear(24, 1)
    ).to(device)
    net = jit(model)
    params = list(model.parameters())
    ms = [torch.zeros_like(p) for p in params]
    vs = [torch.zeros_like(p) for p in params]
    ema = [p.detach().clone() for p in params]
    count = [0]
    xs = normal(device, 8, 32, 24, seed=17)

    def step(x):
        loss = (net(x) - torch.sin(x.sum(-1, keepdim=True))).pow(2).mean()
        loss.backward()
        count[0] += 1
        t = count[0]
        with torch.no_grad():
            for p, m, v, e in zip(params, ms, vs, ema, strict=True):
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                p.sub_(1e-3 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8))
                e.lerp_(p, 0.01)
                p.grad = None
        return loss.detach()

    return step, [(x,) for x in xs]
