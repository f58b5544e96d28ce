#!/usr/bin/env python3
"""The floor of each workload: ms per step, replayed without kernels (see floor.cpp).

floor.py [--only REGEX] [--json OUT]
floor.py --ops     what one call of a few kinds costs, run and replayed, in us
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def build():
    import torch

    base = os.path.dirname(torch.__file__)
    out = os.path.join(
        tempfile.gettempdir(), f"floor_{torch.__version__}_{os.getuid()}.so"
    )
    src = os.path.join(HERE, "floor.cpp")
    if not os.path.exists(out) or os.path.getmtime(out) < os.path.getmtime(src):
        subprocess.run(
            [
                "g++",
                "-std=c++20",
                "-O2",
                "-fPIC",
                "-shared",
                src,
                "-o",
                out + ".part",
                f"-I{base}/include",
                f"-I{base}/include/torch/csrc/api/include",
                f"-L{base}/lib",
                "-ltorch_cpu",
                "-lc10",
                f"-Wl,-rpath,{base}/lib",
            ],
            check=True,
        )
        os.replace(out + ".part", out)
    return out


def child(name):
    import torch

    sys.path.insert(0, HERE)
    import workloads

    lib = ctypes.CDLL(build())
    torch.manual_seed(0)
    made = workloads.load()[name].make("cpu")
    step, batches = made if isinstance(made, tuple) else (made, [()])
    batch = batches[0]

    def timed(mode, n):
        t = 0.0
        for _ in range(n):
            lib.floor_mode(mode)  # rewinds the tape
            a = time.perf_counter()
            step(*batch)
            t += time.perf_counter() - a
        lib.floor_mode(0)
        return t / n

    for _ in range(3):
        per = timed(0, 1)
    timed(1, 1)
    n = max(3, int(0.1 / per))
    timed(2, 3)
    eager, floor = [], []
    for _ in range(9):
        eager.append(timed(0, n))
        timed(1, 1)
        floor.append(timed(2, 3 * n))
    ok = lib.floor_mismatches() == 0
    print(
        json.dumps(
            {
                "eager_ms": min(eager) * 1e3,
                "floor_ms": min(floor) * 1e3,
                "floor_med_ms": statistics.median(floor) * 1e3,
                "recorded": lib.floor_tape(),
                "ok": ok,
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)


def ops():
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    lib = ctypes.CDLL(build())
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    ag = torch.randn(8, 8, requires_grad=True)
    lin = nn.Linear(8, 8)
    reps = 200

    def many(f):
        def run():
            for _ in range(reps):
                f()

        return run

    def chain_backward():
        y = ag
        for _ in range(reps):
            y = torch.sin(y)
        return y

    cases = {
        "empty call of a Python lambda": many(lambda: None),
        "a + b": many(lambda: a + b),
        "a.add_(b)": many(lambda: a.add_(b)),
        "a + b, a needs grad": many(lambda: ag + b),
        "a.view(64)": many(lambda: a.view(64)),
        "a.view(64), a needs grad": many(lambda: ag.view(64)),
        "torch.sin(a), a needs grad (forward of the next row)": chain_backward,
        "F.linear, needs grad": many(lambda: F.linear(a, lin.weight, lin.bias)),
        "nn.Linear module, needs grad": many(lambda: lin(a)),
        "F.layer_norm": many(lambda: F.layer_norm(a, (8,))),
        "torch.zeros(8, 8)": many(lambda: torch.zeros(8, 8)),
    }

    def timed(f, mode):
        best = 1e9
        for _ in range(30):
            lib.floor_mode(mode)
            t = time.perf_counter()
            f()
            best = min(best, time.perf_counter() - t)
            lib.floor_mode(0)
        return best / reps * 1e6

    def show(name, f):
        run = timed(f, 0)
        lib.floor_mode(1)
        f()
        lib.floor_mode(0)
        print(f"{name:55} run {run:6.2f}  replayed {timed(f, 2):6.2f}")

    print("us per call, 8 x 8 float32")
    for name, f in cases.items():
        show(name, f)

    def both():
        chain_backward().sum().backward()
        ag.grad = None

    show("sin forward + backward (2 kernels)", both)
    for f in (lib.floor_add_us, lib.floor_view_us):
        f.restype = ctypes.c_double
    add, view = lib.floor_add_us, lib.floor_view_us
    print("from C++, no autograd:")
    print(f"  add run {add(0, 500):.2f} replayed {add(2, 500):.2f}")
    print(f"  view run {view(0, 500):.2f} through the fallback {view(2, 500):.2f}")


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--only", default="")
    ap.add_argument("--json")
    ap.add_argument("--ops", action="store_true")
    ap.add_argument("--child")
    opt = ap.parse_args()
    if opt.ops:
        return ops()
    if opt.child:
        return child(opt.child)
    sys.path.insert(0, HERE)
    import workloads

    build()
    results = {}
    for name in workloads.load():
        if not re.search(opt.only, name):
            continue
        p = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--child", name],
            capture_output=True,
            text=True,
        )
        try:
            r = results[name] = json.loads(p.stdout.strip().splitlines()[-1])
            print(
                f"{name:18} eager {r['eager_ms']:9.3f}  floor {r['floor_ms']:9.3f} ms"
                f"  bound x{r['eager_ms'] / r['floor_ms']:.2f}"
                f"  {r['recorded']} ops that are no views"
                f"{'' if r['ok'] else '  TAPE MISMATCH'}",
                flush=True,
            )
        except (IndexError, ValueError):
            print(f"{name:18} failed: {p.stderr.strip()[-300:]}", flush=True)
    if opt.json:
        with open(opt.json, "w") as f:
            json.dump(results, f, indent=1)
    return None


if __name__ == "__main__":
    main()
