"""Pointwise chains of 4 and 16 ops on 2^12 to 2^22 elements."""

import torch
import torch.nn.functional as F

from . import jit, normal, workload


def register(ops, f):
    for bits, label in ((12, "4k"), (16, "64k"), (20, "1m"), (22, "4m")):

        def make(device, bits=bits):
            rows = 2 ** (bits - 8)
            xs = normal(device, 3, rows, 256, seed=bits)
            b, g = normal(device, 256, seed=1), normal(device, 256, seed=2)
            run = jit(f)
            total = torch.zeros((), device=device)

            @torch.no_grad()
            def step(x):
                total.add_(run(x, b, g).mean())
                return total

            return step, [(x,) for x in xs]

        workload(
            "overhead" if bits == 12 else "compute",
            group=f"chain_{label}",
            name=f"chain{ops}_{label}",
        )(make)


def chain4(x, b, g):
    return F.silu(x + b) * g - 0.5


def chain16(x, b, g):
    y = F.silu(x + b) * g - 0.5
    y = torch.tanh(y * 0.7) + x
    z = torch.sigmoid(y - b) * 2.0
    z = z * z + 0.1
    y = torch.sqrt(z) / (1.0 + y.abs())
    return y.clamp(-3, 3) * x


register(4, chain4)
register(16, chain16)
