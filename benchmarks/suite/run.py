#!/usr/bin/env python3
"""Judges how fast unmodified eager scripts run against CPU eager and torch.compile.

    run.py --modes cpu-eager,neuron,neuron-plain    everything, all rounds
    run.py --quick                                  cpu-eager and neuron in four minutes
    run.py --baseline baselines.json                also against stored compile times
    run.py --modes cpu-eager,cpu-compile,cpu-compile-step --json baselines.json
    run.py --self-check --quick                     cpu-eager against itself: the noise
    run.py --list

Each (workload, mode) runs in its own process. The workers of one workload are alive
together and take turns, one at a time, round by round, so that noise hits all modes
alike; ratios are medians over rounds of paired times. A round during which other
processes used the machine is repeated and left out. A worker reads the returned scalar
every 10 steps, as people log. Losses of the first steps are compared with cpu-eager, for
device modes once cold and once again when everything is hot; a wrong number, a crash or a
time-out is a failure of the workload, and is printed.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import workloads as registry
from measure import measure, seed_inductor
from modes import COMPILE_MODES, MODES
from summary import add_best_compile, summary, table

# In --quick one member of a chain family speaks for it.
QUICK_SKIP = r"chain(4|16)_(64k|1m)|chain4_4m"


def parse():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = ap.add_argument
    add("--modes", default="cpu-eager,neuron", help="of: " + ", ".join(MODES))
    add("--only", default="", metavar="REGEX")
    add("--skip", default="", metavar="REGEX")
    add("--rounds", type=int, help="default 7, in --quick 5")
    add("--json", type=Path, metavar="OUT", help="written after every workload")
    add("--resume", action="store_true", help="keep what --json already has")
    add("--baseline", type=Path, metavar="JSON", help="stored compile times")
    add("--quick", action="store_true")
    add("--self-check", action="store_true", help="cpu-eager twice: ratios near 1")
    add("--cache", metavar="DIR", help="keep compile caches: a second run starts warm")
    add("--timeout", type=float, default=150, help="seconds for any one request")
    add("--patience", type=float, help="seconds to wait for a quiet machine: 20, quick 2")
    add("--warm", type=float, help="seconds of warm-up: 2, quick 0.35")
    add("--threads", type=int, default=0)
    add("--list", action="store_true")
    opt = ap.parse_args()
    opt.rounds = opt.rounds or (5 if opt.quick else 7)
    if opt.patience is None:
        opt.patience = 2 if opt.quick else 20
    opt.warm = opt.warm or (0.35 if opt.quick else 2.0)
    opt.slice = 0.08 if opt.quick else 0.3
    opt.modes = (
        ["cpu-eager", "cpu-eager-again"] if opt.self_check else opt.modes.split(",")
    )
    if unknown := set(opt.modes) - set(MODES):
        ap.error(f"unknown modes {', '.join(unknown)}; there are {', '.join(MODES)}")
    return opt


def chosen(opt):
    for name, w in registry.load().items():
        quick = opt.quick and not opt.only and re.fullmatch(QUICK_SKIP, name)
        skipped = opt.skip and re.search(opt.skip, name)
        if re.search(opt.only, name) and not skipped and not quick:
            yield name, w


def save(path, results, opt):
    content = {"load": os.getloadavg(), "rounds": opt.rounds, "results": results}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1))
    part.replace(path)


def main():
    opt = parse()
    todo = list(chosen(opt))
    if opt.list:
        for name, w in todo:
            print(f"{name:18} {w.cls:9} tol {w.tol}")
        return
    baseline = json.loads(opt.baseline.read_text())["results"] if opt.baseline else None
    results = {}
    if opt.resume and opt.json and opt.json.exists():
        results = json.loads(opt.json.read_text())["results"]

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    began = time.time()
    root = tempfile.mkdtemp(prefix="suite_")
    try:
        seed = seed_inductor(root) if set(opt.modes) & set(COMPILE_MODES) else None
        for k, (name, w) in enumerate(todo, 1):
            if set(opt.modes) <= set(results.get(name, {}).get("modes", {})):
                continue
            modes, disturbed = measure(name, w, opt.modes, opt, root, seed)
            results[name] = {
                "cls": w.cls,
                "group": w.group,
                "disturbed": disturbed,
                "modes": modes,
            }
            note = " ".join(
                f"{mode}=" + ("FAILED" if "error" in r else f"{r['med_ms']:.3f}")
                for mode, r in modes.items()
            )
            passed = f"[{time.time() - began:6.0f} s] {k}/{len(todo)}"
            print(passed, name, note, file=sys.stderr, flush=True)
            add_best_compile(results, baseline)
            if opt.json:
                save(opt.json, results, opt)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    table(results, opt.modes)
    summary(results, opt.modes)
    load, took = os.getloadavg()[0], time.time() - began
    print(
        f"\n{len(results)} workloads, {opt.rounds} rounds, {took:.0f} s, load {load:.1f}"
    )


if __name__ == "__main__":
    main()
