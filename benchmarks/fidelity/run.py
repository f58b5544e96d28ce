#!/usr/bin/env python3
"""Compares the simulated clock with what users measured on Trainium2.

run.py            every row; under a minute
run.py --quick    without ESM-2
run.py --json     as JSON

Each program runs on the device in a dry run, and its time is read from the simulated
clock. docs/clock.md explains the model and the rows that it misses.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

LIMIT = 0.2


def predict(cores: int, is_quick: bool) -> list[dict[str, object]]:
    """The rows of a device of so many physical cores; in a process made for that."""
    import rows
    import torch

    found = []
    with torch.neuron.dry_run():
        for row in rows.table():
            if row.cores == cores and (row.is_quick or not is_quick):
                found.append(
                    {
                        "name": row.name,
                        "unit": row.unit,
                        "role": row.role,
                        "published": row.published,
                        "predicted": row.predict(),
                    }
                )
    return found


def predict_apart(cores: int, is_quick: bool) -> list[dict[str, object]]:
    """`predict` in a process of its own."""
    environment = {
        **os.environ,
        "NEURON_LOGICAL_NC_CONFIG": str(cores),
        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
        "NEURON_WINDOW_OPS": "65536",
        "NEURON_ADAPTIVE_EAGER": "0",
    }
    command = [sys.executable, __file__, "--cores", str(cores)]
    done = subprocess.run(
        command + ["--quick"] * is_quick,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout)


def ratio(row: dict) -> float:
    """Predicted over published; equal counts of zero are a hit."""
    if row["published"] == 0:
        return 1.0 if row["predicted"] == 0 else float("inf")
    return row["predicted"] / row["published"]


def measure(is_quick: bool = False) -> list[dict[str, object]]:
    """Every row with its ratio."""
    found = predict_apart(2, is_quick) + predict_apart(1, is_quick)
    return [{**row, "ratio": ratio(row)} for row in found]


def is_hit(row: dict) -> bool:
    """Within 20 % of what was published."""
    return abs(row["ratio"] - 1) <= LIMIT


def print_table(found: list[dict]) -> None:
    """One line a row; the last line counts the hits."""
    head = f"{'':34}{'predicted':>11}{'published':>11}{'':6}{'ratio':>6}"
    print(head)
    for row in found:
        mark = "" if is_hit(row) else "  <- off"
        role = "" if row["role"] == "test" else row["role"]
        line = (
            f"{row['name']:34}{row['predicted']:11.4g}{row['published']:11.4g}"
            f" {row['unit']:5}{row['ratio']:6.2f}  {role}{mark}"
        )
        print(line.rstrip())
    hits = sum(is_hit(row) for row in found)
    print(f"fidelity: {hits} of {len(found)} rows within 20 %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without ESM-2")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cores is not None:
        print(json.dumps(predict(args.cores, args.quick)))
        return
    found = measure(args.quick)
    print(json.dumps(found, indent=1)) if args.json else print_table(found)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
