"""The process that runs one workload in one mode, asked by the parent over a pipe."""

import contextlib
import json
import math
import os
import re
import sys
import time
from pathlib import Path

from modes import MODES, STEPS_PER_READ


def status_kb(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


class Worker:
    """One workload in one mode: public methods answer requests of the parent."""

    def __init__(self, mode, name):
        import torch

        self.torch, self.mode = torch, mode
        self.device, self.compiles, _ = MODES[mode]
        if self.device == "neuron" and not hasattr(torch, "neuron"):
            import torch_neuronx  # noqa: F401  (when the entry point did not load it already)
        import workloads

        self.workload = workloads.load()[name]
        if self.compiles == "model":
            backend = {"backend": "neuron"} if self.device == "neuron" else {}
            workloads.set_jit(lambda f: torch.compile(f, **backend))
        if self.compiles:
            import torch._dynamo

            torch._dynamo.utils.set_compilation_metrics_limit(4096)
        with contextlib.suppress(OSError):  # start the high-water mark afresh
            Path("/proc/self/clear_refs").write_text("5")
        self.rss0 = status_kb("VmRSS")

    def make(self):
        self.torch.manual_seed(0)
        made = self.workload.make(self.device)
        self.step, self.batches = made if isinstance(made, tuple) else (made, [()])
        if self.compiles == "step":
            self.step = self.torch.compile(self.step)
        self.i = 0

    def one(self):
        out = self.step(*self.batches[self.i % len(self.batches)])
        self.i += 1
        return out

    def read(self, out):
        if out is not None:
            return float(out.item())
        if self.device == "neuron":
            self.torch.neuron.synchronize()
        return 0.0

    def run(self, n):
        t0, value = time.perf_counter(), 0.0
        for k in range(1, n + 1):
            out = self.one()
            if k % STEPS_PER_READ == 0 or k == n:
                value = self.read(out)
        self.last = value
        return time.perf_counter() - t0

    def check(self):
        return [self.read(self.one()) for _ in range(self.workload.check)]

    def warm(self, seconds, cap):
        t0 = time.perf_counter()
        self.make()
        t1 = time.perf_counter()
        first = self.read(self.one())
        t2 = time.perf_counter()
        losses = [first]
        curve = [(t2 - t1, t2 - t1)]  # (time since the first step began, time per step)
        for _ in range(self.workload.check - 1):
            a = time.perf_counter()
            losses.append(self.read(self.one()))
            b = time.perf_counter()
            curve.append((b - t1, b - a))
        per = curve[-1][1]
        start = time.perf_counter()
        while True:
            n = max(1, min(STEPS_PER_READ, math.ceil(0.2 / per)))
            per = self.run(n) / n
            now = time.perf_counter()
            curve.append((now - t1, per))
            tail = [p for _, p in curve[-3:]]
            if now - start > cap or (
                now - start > seconds and max(tail) < 1.25 * min(tail)
            ):
                break
        return {
            "make_s": t1 - t0,
            "first_s": t2 - t1,
            "losses": losses,
            "curve": curve,
            "per": min(tail),
        }

    def time(self, n, limit):
        """n steps, or fewer when the machine turned slow meanwhile."""
        done, t = 0, 0.0
        while done < n and t < limit:
            k = min(n - done, STEPS_PER_READ)
            t += self.run(k)
            done += k
        return {"t": t / done, "last": self.last}

    def finish(self):
        out = {"rss_mb": (status_kb("VmHWM") - self.rss0) / 1024, "last": self.last}
        torch = self.torch
        if self.compiles:
            from torch._dynamo import utils

            done = utils.get_compilation_metrics()
            out["compiles"] = sum(
                1 for m in done if m.is_forward is not False and m.frame_key is not None
            )
            out["recompiles"] = sum(1 for m in done if m.recompile_reason)
            out["graph_breaks"] = sum(utils.counters["graph_break"].values())
            out["graphs"] = utils.counters["stats"].get("unique_graphs", 0)
        if self.device == "neuron":
            out["hot_losses"] = self.recheck()
            try:
                import torch_neuronx

                torch_neuronx.clear_op_tracking()
                self.read(self.one())
                torch.neuron.synchronize()
                host = torch_neuronx.get_fallback_ops()
                out["host_ops"] = {op: host.count(op) for op in sorted(set(host))}
            except Exception as e:
                out["host_ops"] = f"unknown: {e!r}"
        if self.mode == "cpu-eager":
            out["hot_losses"] = self.recheck()
            out.update(self.count())
        return out

    def recheck(self):
        self.make()
        return self.check()

    def count(self):
        """Ops that reach the backend in one step, and how many of them are views."""
        from torch.utils._python_dispatch import TorchDispatchMode

        n = {"ops": 0, "views": 0, "reads": 0}

        class Count(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                name = func.overloadpacket.__name__
                n["ops"] += 1
                n["reads"] += name in ("_local_scalar_dense", "nonzero", "equal")
                returns = func._schema.returns
                n["views"] += bool(returns) and all(
                    r.alias_info and not r.alias_info.is_write for r in returns
                )
                return func(*args, **(kwargs or {}))

        with Count():
            self.one()
        return n


def main(mode, name):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the workload prints goes to stderr

    def reply(**kw):
        out.write(json.dumps(kw) + "\n")
        out.flush()

    def failure(e):
        import traceback

        traceback.print_exc()
        text = f"{type(e).__name__}: {e}"
        reply(error=re.sub(r"(/[\w.@-]+){2,}/", "", text)[:1500])

    try:
        w = Worker(mode, name)
    except BaseException as e:
        failure(e)
        return
    reply(ready=True)
    for line in sys.stdin:
        msg = json.loads(line)
        try:
            reply(**getattr(w, msg.pop("do"))(**msg))
        except BaseException as e:
            failure(e)
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
