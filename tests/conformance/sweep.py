"""The OpInfo sweep: every op on the device against CPU, in both modes of the device.

    python tests/conformance/sweep.py                 two element types of every op
    python tests/conformance/sweep.py --full          all element types
    python tests/conformance/sweep.py --ops '^linalg' --full -v

Counted is every (op, element type, mode) triple for which CPU agrees with itself. The
last line says how many of them pass. Failures go to build/conformance.json with the
first line of the error. Exit status is 1 if a triple fails that `exclusions.toml` does
not list, or if a listed triple passes (its line is to be removed).
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from typing import Any

import torch

from triple import Triple, ops_by_name, sampled_dtypes, triples_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Samples of each triple. More samples find little more and cost time in proportion.
SAMPLES_QUICK = 3
SAMPLES_FULL = 8

#: A triple that takes longer hangs: the slowest takes 5 s on CPU.
TRIPLE_TIMEOUT_S = 120

#: A worker with more resident memory is replaced, so that a leak cannot end the sweep.
WORKER_RSS_LIMIT_MIB = 3000


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """One entry of `exclusions.toml`: triples that may fail, and why."""

    op: str
    dtypes: frozenset[str]
    modes: frozenset[str]
    reason: str
    run: bool
    flaky: bool = False

    def covers(self, triple: Triple) -> bool:
        """Whether the entry is about this triple."""
        return (
            self.op == triple.op
            and bool({triple.dtype, "*"} & self.dtypes)
            and bool({triple.mode, "*"} & self.modes)
        )


def read_exclusions(path: pathlib.Path) -> list[Exclusion]:
    """The entries of the file; each must have a reason."""
    entries = tomllib.loads(path.read_text()).get("exclusion", [])
    found = []
    for entry in entries:
        if not entry["reason"].strip():
            raise ValueError(f"exclusion of {entry['op']} has no reason")
        found.append(
            Exclusion(
                op=entry["op"],
                dtypes=frozenset(entry.get("dtypes", ["*"])),
                modes=frozenset(entry.get("modes", ["*"])),
                reason=entry["reason"],
                run=entry.get("run", True),
                flaky=entry.get("flaky", False),
            )
        )
    return found


class Worker:
    """One worker process; replaced when it crashes, hangs or has grown."""

    def __init__(self, device: str, samples: int, log: Any) -> None:
        self._how = {"device": device, "samples": samples}
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def ask(self, triple: Triple) -> dict[str, str]:
        """The outcome of a triple; `fail` if the worker dies or hangs over it."""
        process = self._running()
        timer = threading.Timer(TRIPLE_TIMEOUT_S, process.kill)
        timer.start()
        try:
            answer = self._exchange(process, {**dataclasses.asdict(triple), **self._how})
        finally:
            timed_out = not timer.is_alive()
            timer.cancel()
        if answer is not None:
            self._replace_if_large(process)
            return answer
        code = process.wait()
        self._process = None
        if timed_out:
            return {"outcome": "fail", "error": f"hangs: over {TRIPLE_TIMEOUT_S} s"}
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return {"outcome": "fail", "error": f"crashes: {how}"}

    def close(self) -> str | None:
        """Ends the process; what is wrong if it does not end cleanly."""
        if self._process is None:
            return None
        self._process.stdin.close()
        try:
            code = self._process.wait(TRIPLE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "a worker does not exit"
        finally:
            self._process = None
        return None if code == 0 else f"a worker exits with status {code}"

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "worker.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        return self._process

    @staticmethod
    def _exchange(process: subprocess.Popen[str], task: dict) -> dict[str, str] | None:
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        for line in process.stdout:
            answer = json.loads(line)
            if "outcome" in answer:
                return answer
        return None

    def _replace_if_large(self, process: subprocess.Popen[str]) -> None:
        pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") > WORKER_RSS_LIMIT_MIB * 2**20:
            self.close()


@dataclasses.dataclass
class Report:
    """What the sweep found."""

    outcomes: dict[Triple, dict[str, str]]
    exclusions: list[Exclusion]
    problems: list[str]

    def excluded(self, triple: Triple) -> Exclusion | None:
        """The exclusion that covers the triple."""
        return next((e for e in self.exclusions if e.covers(triple)), None)

    def counted(self) -> list[Triple]:
        """The triples for which CPU agrees with itself, layouts left out."""
        ignored = ("cpu", "layout")
        return [t for t, o in self.outcomes.items() if o["outcome"] not in ignored]

    def passing(self) -> list[Triple]:
        """The counted triples that pass."""
        return [t for t in self.counted() if self.outcomes[t]["outcome"] == "pass"]

    def unlisted(self) -> list[Triple]:
        """Failing triples that no exclusion covers."""
        return [
            t
            for t in self.counted()
            if self.outcomes[t]["outcome"] != "pass" and self.excluded(t) is None
        ]

    def stale(self) -> list[Triple]:
        """Passing triples that an exclusion covers, unless it says `flaky`."""
        covered = ((t, self.excluded(t)) for t in self.passing())
        return [t for t, exclusion in covered if exclusion and not exclusion.flaky]

    def write(self, path: pathlib.Path) -> None:
        """Writes counts, failures and what was left out as JSON."""
        failures = []
        for triple in sorted(set(self.counted()) - set(self.passing())):
            exclusion = self.excluded(triple)
            failures.append(
                {
                    **dataclasses.asdict(triple),
                    "error": self.outcomes[triple].get("error", ""),
                    "excluded": exclusion.reason if exclusion else None,
                }
            )
        layouts = [t for t, o in self.outcomes.items() if o["outcome"] == "layout"]
        path.parent.mkdir(parents=True, exist_ok=True)
        text = {
            "passing": len(self.passing()),
            "counted": len(self.counted()),
            "no_answer_on_cpu": len(self.outcomes) - len(self.counted()) - len(layouts),
            "layout_not_strided": [dataclasses.asdict(t) for t in sorted(layouts)],
            "failures": failures,
        }
        path.write_text(json.dumps(text, indent=1) + "\n")


def select(full: bool, pattern: str, modes: list[str], dtypes: list[str]) -> list[Triple]:
    """The triples to run, in a fixed order."""
    found = []
    for name, op in sorted(ops_by_name().items()):
        if re.search(pattern, name):
            found += triples_of(op, None if full or dtypes else sampled_dtypes(op))
    return [
        t
        for t in found
        if (not modes or t.mode in modes) and (not dtypes or t.dtype in dtypes)
    ]


def run(
    triples: list[Triple], workers: list[Worker], excluded: Any, verbose: bool
) -> tuple[dict[Triple, dict[str, str]], list[str]]:
    """Runs the triples, an op at a time on each worker."""
    by_op: dict[str, list[Triple]] = collections.defaultdict(list)
    for triple in triples:
        by_op[triple.op].append(triple)
    ops: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in by_op:
        ops.put(name)
    outcomes: dict[Triple, dict[str, str]] = {}
    problems: list[str] = []

    def drive(worker: Worker) -> None:
        while True:
            try:
                name = ops.get_nowait()
            except queue.Empty:
                break
            for triple in by_op[name]:
                exclusion = excluded(triple)
                if exclusion is not None and not exclusion.run:
                    outcomes[triple] = {"outcome": "fail", "error": "not run: excluded"}
                else:
                    outcomes[triple] = worker.ask(triple)
                answer = outcomes[triple]
                if verbose and answer["outcome"] == "fail" and exclusion is None:
                    print(*dataclasses.astuple(triple), answer["error"], flush=True)
        problem = worker.close()
        if problem:
            problems.append(problem)

    threads = [threading.Thread(target=drive, args=(w,)) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes, problems


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all element types")
    parser.add_argument("--device", default=os.environ.get("DUT", "neuron"))
    parser.add_argument("--ops", default="", help="regular expression on full names")
    parser.add_argument("--modes", nargs="*", default=[])
    parser.add_argument("--dtypes", nargs="*", default=[])
    parser.add_argument("--samples", type=int, default=None, help="per triple")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", default=str(ROOT / "build" / "conformance.json"))
    parser.add_argument("-v", "--verbose", action="store_true", help="failures at once")
    return parser.parse_args()


def main() -> int:
    """Runs the sweep; the exit status."""
    args = arguments()
    torch.empty(0, device=args.device)  # fails at once if there is no such device
    start = time.monotonic()
    exclusions = read_exclusions(HERE / "exclusions.toml")
    report = Report({}, exclusions, [])
    triples = select(args.full, args.ops, args.modes, args.dtypes)
    samples = args.samples or (SAMPLES_FULL if args.full else SAMPLES_QUICK)
    log_path = pathlib.Path(args.json).with_suffix(".log")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "w") as log:
        workers = [Worker(args.device, samples, log) for _ in range(args.jobs)]
        outcomes, problems = run(triples, workers, report.excluded, args.verbose)
    report.outcomes, report.problems = outcomes, problems
    report.write(pathlib.Path(args.json))
    for triple in sorted(report.unlisted()):
        print("fails, not listed:", *dataclasses.astuple(triple), end=" ")
        print(outcomes[triple].get("error", ""))
    for triple in sorted(report.stale()):
        print("passes, but is listed:", *dataclasses.astuple(triple))
    for problem in problems:
        print("problem:", problem)
    passing, counted = len(report.passing()), len(report.counted())
    share = 100.0 * passing / counted if counted else 0.0
    print(f"{time.monotonic() - start:.0f} s, failures in {args.json}")
    print(f"conformance: {passing} of {counted} triples pass ({share:.2f} %)")
    wrong = report.unlisted() or report.stale() or problems or not counted
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
