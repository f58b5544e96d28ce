"""Measures one workload in several modes: workers alive together, taking turns."""

import itertools
import math
import os
import shutil
import statistics
import subprocess
import sys

from modes import COMPILE_MODES, QUIET, STEPS_PER_READ
from remote import Failed, Remote, wait_quiet


def agree(a, b, tol, random):
    if a is None or b is None or len(a) != len(b):
        return False
    if random:  # other random numbers: compare means
        a, b = [sum(a) / len(a)], [sum(b) / len(b)]
    scale = max(abs(y) for y in b)
    return all(
        math.isfinite(x) and abs(x - y) <= tol * max(abs(y), 0.1 * scale) + 1e-7
        for x, y in zip(a, b, strict=True)
    )


def seed_inductor(root):
    """Pays once, not per workload, for the compiler's header and its vector probes."""
    seed = os.path.join(root, "seed")
    code = "import torch; torch.compile(lambda x: (x + 1).sum())(torch.ones(5000))"
    subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ, TORCHINDUCTOR_CACHE_DIR=seed),
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for part in ("fxgraph", "aotautograd"):
        shutil.rmtree(os.path.join(seed, part), ignore_errors=True)
    return seed


def hot_time(curve, final):
    """When step time came within 1.2x of its final value for two blocks in a row."""
    for (_, a), (t, b) in itertools.pairwise(curve):
        if a <= 1.2 * final and b <= 1.2 * final:
            return t
    return curve[-1][0]


def judge(res, wl, noise):
    """Medians of the quiet rounds, ratios to cpu-eager, and whether the numbers agree."""
    rounds = [i for i, x in enumerate(noise) if x < QUIET]
    if len(rounds) < 3:
        rounds = sorted(range(len(noise)), key=noise.__getitem__)[
            : max(3, len(noise) // 2)
        ]
    for r in res.values():
        if "error" not in r:
            r["times"] = [r["times"][i] for i in rounds]
    ref = res.get("cpu-eager", {}).get("losses")
    for r in res.values():
        if "error" in r:
            continue
        r["min_ms"] = min(r["times"]) * 1e3
        r["med_ms"] = statistics.median(r["times"]) * 1e3
        r["hot_s"] = hot_time(r.pop("curve"), r["med_ms"] / 1e3)
        if not math.isfinite(r["last"]):
            r["error"] = f"the loss became {r['last']}"
        elif ref:
            for what in ("losses", "hot_losses"):
                if what in r and not agree(r[what], ref, wl.tol, wl.random):
                    got, want = r[what][:4], ref[:4]
                    r["error"] = f"wrong numbers ({what}): {got}, cpu-eager {want}"
    base = res.get("cpu-eager", {}).get("times")
    for r in res.values():
        if base and "times" in r and len(r["times"]) == len(base):
            r["vs_eager"] = statistics.median(
                b / t for b, t in zip(base, r["times"], strict=True)
            )
    plain, lazy = res.get("neuron-plain", {}), res.get("neuron", {})
    if "losses" in plain and "losses" in lazy:  # the promise: one result, to the bit
        lazy["same_bits_as_plain"] = (
            lazy["losses"] == plain["losses"] == lazy.get("hot_losses")
        )


def measure(name, wl, modes, opt, root, seed):
    """One workload in all modes: results per mode, and the share of disturbed rounds."""
    res, live = {}, {}
    for mode in modes:
        cache = os.path.join(opt.cache or root, mode, name)
        if not os.path.isdir(cache):
            os.makedirs(cache)
            if seed and mode in COMPILE_MODES:
                shutil.copytree(seed, os.path.join(cache, "inductor"))
        live[mode] = Remote(mode, name, cache, opt.threads)
        res[mode] = {}

    def fail(mode, e):
        res[mode]["error"] = str(e).strip() or repr(e)
        live.pop(mode).close()

    try:
        for mode in list(live):
            try:
                live[mode].hear(120)
            except Failed as e:
                fail(mode, e)
        for mode in list(live):
            try:
                r = live[mode].ask(
                    "warm",
                    opt.timeout,
                    seconds=opt.warm,
                    cap=opt.warm * (3 if opt.quick else 6),
                )
                res[mode].update(r, n=max(1, round(opt.slice / r["per"])), times=[])
                if res[mode]["n"] > STEPS_PER_READ:
                    reads = math.ceil(res[mode]["n"] / STEPS_PER_READ)
                    res[mode]["n"] = reads * STEPS_PER_READ
            except Failed as e:
                fail(mode, e)
        clean, noise, patience = 0, [], opt.patience
        # A round in which others were busy is kept, but another one is added.
        for r in range(2 * opt.rounds):
            order, worst = list(live), 0.0
            patience = wait_quiet(patience)
            for mode in (
                order[r % len(order) :] + order[: r % len(order)] if order else []
            ):
                try:
                    t, others = live[mode].time(
                        res[mode]["n"], 4 * opt.slice, opt.timeout
                    )
                    res[mode]["times"].append(t)
                    worst = max(worst, others)
                except Failed as e:
                    fail(mode, e)
            noise.append(worst)
            clean += worst < QUIET
            if clean >= opt.rounds:
                break
        for mode in list(live):
            try:
                res[mode].update(live[mode].ask("finish", opt.timeout))
            except Failed as e:
                fail(mode, e)
    finally:
        for mode in live:
            live[mode].close()
        if not opt.cache:
            for mode in modes:
                shutil.rmtree(os.path.join(root, mode, name), ignore_errors=True)

    judge(res, wl, noise)
    return res, sum(x >= QUIET for x in noise) / max(1, len(noise))
