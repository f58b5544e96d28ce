"""Tables and geometric means over the workloads."""

import math

from modes import COMPILE_MODES


def add_best_compile(results, baseline):
    """vs_compile: against the faster compile mode, of this run or else of the stored."""
    for name, w in results.items():
        modes = w["modes"]
        best = [
            modes[m]["vs_eager"]
            for m in COMPILE_MODES
            if m in modes and "error" not in modes[m] and "vs_eager" in modes[m]
        ]
        if not best and baseline and name in baseline:
            stored = baseline[name]["modes"]
            best = [
                stored[m]["vs_eager"]
                for m in COMPILE_MODES
                if m in stored and "error" not in stored[m] and "vs_eager" in stored[m]
            ]
        w["best_compile"] = max(best) if best else None
        for r in modes.values():
            if best and "vs_eager" in r:
                r["vs_compile"] = r["vs_eager"] / max(best)
                r["vs_best"] = r["vs_eager"] / max(1, *best)


def geomean(results, cls, mode, key):
    """Geometric mean over groups of those inside a group; failures are only counted."""
    groups, failed = {}, 0
    for w in results.values():
        r = w["modes"].get(mode)
        if w["cls"] != cls or r is None:
            continue
        if "error" in r:
            failed += 1
        elif r.get(key):
            groups.setdefault(w["group"], []).append(math.log(r[key]))
    logs = [sum(v) / len(v) for v in groups.values()]
    return (
        (math.exp(sum(logs) / len(logs)) if logs else float("nan")),
        failed,
        sum(map(len, groups.values())),
    )


def table(results, modes):
    """Prints one row per workload."""
    others = [m for m in modes if m != "cpu-eager"]
    head = f"{'workload':18} {'class':8} {'':1} {'ops':>5} {'eager ms':>9}"
    for m in others:
        head += f" | {m:>16}: ms  x eager x compile"
    print(head + "   med/min  disturbed rounds")
    for name, w in results.items():
        e = w["modes"].get("cpu-eager", {})
        row = f"{name:18} {w['cls']:8} {e.get('ops', 0):5d}"
        row += f" {e.get('med_ms', math.nan):9.3f}"
        for m in others:
            r = w["modes"].get(m, {})
            if "error" in r:
                row += " | " + ("FAILED " + r["error"].replace("\n", " "))[:38].ljust(38)
            elif r:
                row += f" | {r['med_ms']:17.3f} {r.get('vs_eager', math.nan):9.2f}"
                row += f" {r.get('vs_compile') or math.nan:10.2f}"
        if "med_ms" in e:
            row += f"   {e['med_ms'] / e['min_ms']:6.2f} {w.get('disturbed', 0):9.0%}"
        print(row)


def summary(results, modes):
    """Prints one row per mode and class, then what went wrong."""
    print(
        f"\n{'geomean of speed-up':22} {'class':9} {'x eager':>8} {'x best compile':>15}"
        f" {'x better of both':>17} {'worst x eager':>14} {'ok':>4} {'failed':>7}"
    )
    for m in modes:
        for cls in ("overhead", "compute"):
            e, bad, ok = geomean(results, cls, m, "vs_eager")
            c, _, _ = geomean(results, cls, m, "vs_compile")
            b, _, _ = geomean(results, cls, m, "vs_best")
            worst = min(
                (
                    w["modes"][m]["vs_eager"]
                    for w in results.values()
                    if w["cls"] == cls
                    and m in w["modes"]
                    and "error" not in w["modes"][m]
                    and "vs_eager" in w["modes"][m]
                ),
                default=math.nan,
            )
            if ok or bad:
                print(
                    f"{m:22} {cls:9} {e:8.2f} {c:15.2f} {b:17.2f} {worst:14.2f}"
                    f" {ok:4d} {bad:7d}"
                )
    for name, w in results.items():
        for m, r in w["modes"].items():
            if "error" in r:
                print(f"\nFAILED {name} {m}: {r['error'][:300]}")
    differ = [
        name
        for name, w in results.items()
        if w["modes"].get("neuron", {}).get("same_bits_as_plain") is False
    ]
    if differ:
        print("\nneuron and neuron-plain differ in bits:", ", ".join(differ))
