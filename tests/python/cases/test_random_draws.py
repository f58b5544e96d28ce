"""Random numbers: a seed gives one stream, in program order, whatever is lazy.
Streams need not equal CPU's; they must equal themselves."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from device_under_test import DUT, ON_CPU, inp, ref


def draw(n=64):
    return torch.rand(n, device=DUT)


@ref("pytorch/pytorch#84288", "pytorch/pytorch#84516")
def test_manual_seed_repeats():
    x = inp(100, seed=160).to(DUT)
    torch.manual_seed(0)
    a, m1 = torch.randn(5, device=DUT), F.dropout(x, 0.3)
    torch.manual_seed(0)
    b, m2 = torch.randn(5, device=DUT), F.dropout(x, 0.3)
    torch.manual_seed(1)
    c = torch.randn(5, device=DUT)
    assert torch.equal(a, b) and torch.equal(m1, m2) and not torch.equal(a, c)


@ref(
    "pytorch/pytorch#181136",
    "pytorch/pytorch#192635",
    "pytorch/pytorch#151524",
    "tinygrad/tinygrad#16570",
)
def test_order_of_draws_is_program_order():
    torch.manual_seed(7)
    want = []
    for shape in ((2, 4), (3,), (5, 5)):
        want.append(torch.randn(*shape, device=DUT).to("cpu"))  # looked at one by one
    torch.manual_seed(7)
    a = torch.randn(2, 4, device=DUT)
    b = torch.randn(3, device=DUT)
    c = torch.randn(5, 5, device=DUT)
    got_c = c.to("cpu")  # looked at in another order
    got_b = (b + 0).to("cpu")
    got_a = a.to("cpu")
    for g, w in zip((got_a, got_b, got_c), want):
        assert torch.equal(g, w)
    torch.manual_seed(7)
    torch.randn(2, 4, device=DUT)  # drawn, never used
    assert torch.equal(torch.randn(3, device=DUT).to("cpu"), want[1])


@ref("pytorch/pytorch#84288")
def test_fork_rng_leaves_the_stream_alone():
    torch.manual_seed(3)
    first = draw()
    second = draw()
    torch.manual_seed(3)
    again = draw()
    kw = {} if ON_CPU else {"device_type": torch.device(DUT).type}
    with torch.random.fork_rng(**kw):
        torch.manual_seed(99)
        draw()
    assert torch.equal(again, first) and torch.equal(draw(), second)


@ref("pytorch/pytorch#99802", "pytorch/pytorch#92752")
def test_multinomial_stays_inside():
    torch.manual_seed(0)
    p = torch.tensor([0.0, 0.5, 0.0, 0.5], device=DUT)
    s = torch.multinomial(p, 4000, replacement=True).to("cpu")
    assert set(s.tolist()) == {1, 3} and 1700 < int((s == 1).sum()) < 2300
    tiny = torch.tensor([[2.4e-4, 1.2e-5, 0, 0, 0, 0]], device=DUT)
    t = torch.multinomial(tiny.expand(500, 6), 1).to("cpu")
    assert int(t.min()) >= 0 and int(t.max()) <= 1
    w = torch.multinomial(torch.ones(6, device=DUT), 6).to("cpu")
    assert sorted(w.tolist()) == list(range(6))


@ref("pytorch/pytorch#85611", "pytorch/pytorch#15356")
def test_bernoulli_at_both_ends():
    torch.manual_seed(0)
    assert float(torch.bernoulli(torch.ones(200, 10, device=DUT)).min()) == 1.0
    assert float(torch.zeros(1024 * 64, device=DUT).bernoulli().max()) == 0.0
    m = float(torch.empty(20000, device=DUT).bernoulli_(0.25).mean())
    assert abs(m - 0.25) < 0.02


@ref("pytorch/pytorch#74516")
def test_in_place_init_then_eval():
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.ConvTranspose2d(4, 3, 4, 2, 1), nn.BatchNorm2d(3), nn.ReLU()
    ).to(DUT)
    for m in net:
        if isinstance(m, nn.ConvTranspose2d):
            m.weight.data.normal_(0.0, 0.02)
        elif isinstance(m, nn.BatchNorm2d):
            m.weight.data.normal_(1.0, 0.02)
            m.bias.data.fill_(0)
    net.eval()
    x = inp(2, 4, 5, 5, seed=161).to(DUT)
    y1, y2 = net(x), net(x)
    assert torch.equal(y1, y2)
    cpu = nn.Sequential(nn.ConvTranspose2d(4, 3, 4, 2, 1), nn.BatchNorm2d(3), nn.ReLU())
    cpu.load_state_dict({k: v.to("cpu") for k, v in net.state_dict().items()})
    cpu.eval()
    torch.testing.assert_close(y1.to("cpu"), cpu(x.to("cpu")), rtol=1e-4, atol=1e-6)


@ref("pytorch/pytorch#74516")
def test_shapes_and_moments_of_the_distributions():
    torch.manual_seed(2)
    n = 20000
    u = torch.empty(n, device=DUT).uniform_(-1, 3)
    g = torch.empty(n, device=DUT).normal_(2.0, 0.5)
    e = torch.empty(n, device=DUT).exponential_(2.0)
    i = torch.randint(-3, 4, (n,), device=DUT)
    q = torch.randperm(1000, device=DUT)
    assert float(u.min()) >= -1 and float(u.max()) < 3 and abs(float(u.mean()) - 1) < 0.05
    assert abs(float(g.mean()) - 2) < 0.02 and abs(float(g.std()) - 0.5) < 0.02
    assert float(e.min()) >= 0 and abs(float(e.mean()) - 0.5) < 0.03
    assert int(i.min()) == -3 and int(i.max()) == 3 and i.dtype == torch.int64
    assert torch.equal(q.sort().values.to("cpu"), torch.arange(1000))
    z = torch.normal(
        torch.zeros(5, device=DUT), torch.tensor([0.0, 1e-9, 0.0, 0.0, 0.0], device=DUT)
    )
    assert float(z.abs().max()) < 1e-6
