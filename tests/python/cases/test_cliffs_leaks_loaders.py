"""Speed cliffs, leaks and hangs.  Limits are loose; DUT_SLOW relaxes them."""

import gc
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F

from device_under_test import (
    DUT,
    ON_CPU,
    inp,
    module,
    per_step,
    ref,
    rss_mib,
    run_script,
    slow,
)


@ref("pytorch/pytorch#132596", "pytorch/pytorch#181213")
def test_changing_lengths_do_not_leak():
    net = module(lambda: nn.Linear(32, 32), DUT)

    def step(i):
        net(torch.ones(i % 400 + 1, 32, device=DUT)).relu().sum().item()

    per_step(step, 400)
    gc.collect()
    before = rss_mib()
    for i in range(400, 1600):
        step(i * 7)
    gc.collect()
    assert rss_mib() - before < 150, f"grew by {rss_mib() - before:.0f} MiB"


@ref("pytorch/pytorch#171679")
def test_changing_python_scalars_do_not_recompile():
    x = torch.zeros(64, device=DUT)

    def step(i):
        eps = 0.1 + i * 1e-4
        x.clip(1 - eps, 1 + eps).add(eps).mul(1.0 / (i + 1)).sum().item()

    per_step(step, 50)
    before = rss_mib()
    t = per_step(step, 400)
    late = sorted(t[200:])[100]
    assert late < 0.02 * slow(), f"median step {late * 1e3:.1f} ms"
    assert rss_mib() - before < 100


@ref("pytorch/xla#2120", "pytorch/xla#3529")
def test_looking_at_the_loss_every_step():
    net = module(
        lambda: nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)), DUT
    )
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    x = inp(128, 64, seed=180).to(DUT)

    def step(i):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        assert loss.item() >= 0

    t = per_step(step, 120)
    early, late = sorted(t[20:60])[20], sorted(t[80:])[20]
    assert late < max(3 * early, 0.03 * slow()), (
        f"steps slow down: {early * 1e3:.1f} ms to {late * 1e3:.1f} ms"
    )


@ref("pytorch/xla#4741", "pytorch/pytorch#97310")
def test_data_dependent_shapes_every_step():
    x = inp(5000, seed=181).to(DUT)

    def step(i):
        y = x[x > -1.5 + 0.01 * i]
        u, c = torch.unique((y * 10).long(), return_counts=True)
        return int(c.sum()) + int(torch.nonzero(y > 0).numel())

    per_step(step, 20)
    t = sorted(per_step(step, 150))
    assert t[75] < 0.05 * slow(), f"median {t[75] * 1e3:.1f} ms"


@ref("pytorch/xla#3529")
def test_nothing_is_ever_looked_at():
    """A loop that never reads a value must still run in bounded memory."""
    before = rss_mib()
    w = torch.zeros(256, 256, device=DUT)
    for _ in range(3000):
        w = w * 0.99 + 0.01
        w.add_(1e-3)
    mid = rss_mib()
    assert mid - before < 300, f"pending work holds {mid - before:.0f} MiB"
    assert torch.isfinite(w).all()


@ref("pytorch/pytorch#164299", "pytorch/pytorch#145374")
def test_training_loop_memory_is_level():
    net = module(lambda: nn.LSTM(16, 32, 2), DUT)
    head = module(lambda: nn.Linear(32, 4), DUT)
    opt = torch.optim.AdamW(list(net.parameters()) + list(head.parameters()), 1e-3)

    def step(i):
        x = torch.ones(i % 5 + 3, 4, 16, device=DUT)
        opt.zero_grad()
        F.cross_entropy(head(net(x)[0][-1]), torch.arange(4, device=DUT)).backward()
        opt.step()

    for i in range(60):
        step(i)
    gc.collect()
    before = rss_mib()
    for i in range(300):
        step(i)
    gc.collect()
    assert rss_mib() - before < 100


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((8,), float(i)), i % 3


@ref("pytorch/pytorch#130610", "huggingface/accelerate#3577")
def test_forked_loader_workers_after_the_device_was_used():
    torch.ones(4, device=DUT).add_(1).sum().item()
    rows_by_pin = {}

    def work():
        for pin in [False] if ON_CPU else [False, True]:
            loader = torch.utils.data.DataLoader(
                Rows(), batch_size=8, num_workers=2, pin_memory=pin, shuffle=False
            )
            rows_by_pin[pin] = [
                (x.to(DUT, non_blocking=True), y.to(DUT)) for x, y in loader
            ]

    t = threading.Thread(target=work, daemon=True)
    t.start()
    t.join(120)
    assert not t.is_alive(), "loader hangs"
    assert len(rows_by_pin) == (1 if ON_CPU else 2)
    for rows in rows_by_pin.values():
        assert sum(float(x.sum()) for x, _ in rows) == 8 * sum(range(64))
        assert [int(v) for v in rows[0][1]] == [0, 1, 2, 0, 1, 2, 0, 1]


@ref("microsoft/DirectML#503")
def test_process_ends_cleanly_with_work_pending():
    done = run_script(
        "import os, torch\n"
        "x = torch.ones(64, 64, device=os.environ['DUT'])\n"
        "for i in range(50): x = (x @ x) * 0.01 + i\n"
        "y = x.sum()\n"
        "print('end', flush=True)\n"
    )
    assert done.returncode == 0 and "end" in done.stdout, done.stderr[-500:]


@ref("microsoft/DirectML#668")
def test_two_threads_use_the_device():
    out = {}

    def work(k):
        net = module(lambda: nn.Linear(16, 16), DUT, seed=1)
        x = torch.full((4, 16), float(k), device=DUT)
        for _ in range(30):
            net.zero_grad()
            net(x).sum().backward()
        out[k] = net.weight.grad.to("cpu")

    ts = [threading.Thread(target=work, args=(k,), daemon=True) for k in (1, 2, 3)]
    [t.start() for t in ts]
    [t.join(120) for t in ts]
    assert len(out) == 3
    for k in out:
        assert torch.allclose(out[k], torch.full((16, 16), 4.0 * k))
