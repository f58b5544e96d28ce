"""The parent's side of a worker, and how busy the machine is with other things."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from modes import MODES, QUIET

HERE = Path(__file__).resolve().parent


class Failed(Exception):
    """A worker gave a wrong answer, or none."""


HZ = os.sysconf("SC_CLK_TCK")


def cpu_used():
    """CPU seconds used on this machine by anybody, or stolen by the hypervisor."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / HZ


def cpu_used_by(pid):
    with open(f"/proc/{pid}/stat") as f:
        v = f.read().rsplit(")", 1)[1].split()
    return (int(v[11]) + int(v[12])) / HZ


def wait_quiet(patience):
    """Waits until others leave the machine alone; returns what is left of patience."""
    end = time.monotonic() + patience
    while True:
        before = cpu_used()
        time.sleep(0.1)
        if (cpu_used() - before) / 0.1 < QUIET or time.monotonic() > end:
            return max(0, end - time.monotonic())
        time.sleep(0.5)


class Remote:
    """A worker process, as its parent sees it."""

    def __init__(self, mode, name, cache, threads):
        self.mode = mode
        env = dict(os.environ, PYTHONUNBUFFERED="1", **MODES[mode][2])
        if threads:
            env["OMP_NUM_THREADS"] = str(threads)
        self.cache = cache
        for var, sub in (
            ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
            ("TORCH_NEURONX_NEFF_CACHE_DIR", "neff"),
            ("TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR", "neff-local"),
            ("NEURON_COMPILE_CACHE_URL", "neuron"),
        ):
            env[var] = os.path.join(cache, sub)
        self.err = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self.proc = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), mode, name],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.err,
            start_new_session=True,
        )
        self.buf = b""

    def hear(self, timeout):
        sel = selectors.DefaultSelector()
        sel.register(self.proc.stdout, selectors.EVENT_READ)
        end = time.monotonic() + timeout
        while b"\n" not in self.buf:
            if not sel.select(max(0, end - time.monotonic())):
                raise Failed(f"no answer in {timeout:.0f} s")
            data = os.read(self.proc.stdout.fileno(), 65536)
            if not data:
                self.err.seek(0)
                tail = self.err.read()[-400:].strip().replace("\n", " | ")
                raise Failed(f"worker died with status {self.proc.wait()}: {tail}")
            self.buf += data
        line, self.buf = self.buf.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def ask(self, do, timeout, **kw):
        self.proc.stdin.write((json.dumps(dict(do=do, **kw)) + "\n").encode())
        self.proc.stdin.flush()
        return self.hear(timeout)

    def time(self, n, limit, timeout):
        """Seconds per step, and how many CPUs others kept busy meanwhile."""
        t0, all0, own0 = time.perf_counter(), cpu_used(), cpu_used_by(self.proc.pid)
        t = self.ask("time", timeout, n=n, limit=limit)["t"]
        others = cpu_used() - all0 - (cpu_used_by(self.proc.pid) - own0)
        return t, others / (time.perf_counter() - t0)

    def close(self):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.proc.stdin.close()
            self.proc.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            # The worker's own process group: compiler children go with it.
            os.killpg(self.proc.pid, signal.SIGKILL)
        self.proc.wait()
        self.err.close()
