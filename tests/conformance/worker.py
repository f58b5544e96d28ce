"""Runs triples for `sweep.py` in a process of its own, so that a crash costs one triple.

Reads lines of JSON from standard input, `{"op", "dtype", "mode", "samples", "device"}`,
and answers each on the stream it was started with: first `{"start": ...}`, then
`{"outcome": ..., "error": ...}`. Whatever an op prints goes to standard error.
"""

import contextlib
import itertools
import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves

import compare
from call import RUNNERS
from transfer import UnsupportedLayout, fetch, move_sample, require_strided
from triple import Triple, ops_by_name

#: Samples looked at before `samples` of them are picked evenly; some ops have thousands.
SAMPLES_LOOKED_AT = 400

#: Results of these are whatever memory held, so that only their form is compared.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}

#: The seed of a call; draws on the device repeat under it.
CALL_SEED = 20


class Disagrees(Exception):
    """The device shows something else than it should."""


@contextlib.contextmanager
def adaptive(device: str, enabled: bool) -> Iterator[None]:
    """Adaptive eager on or off; nothing where the device is CPU."""
    if torch.device(device).type == "cpu":
        yield
        return
    with torch.neuron.adaptive_eager(enabled=enabled):
        yield


def seed_everything(seed: int) -> None:
    """Seeds all generators that samples are made with."""
    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)


def pick(items: list[Any], count: int) -> list[Any]:
    """At most `count` items, evenly spread, the first and the last among them."""
    if len(items) <= count:
        return items
    if count == 1:
        return items[:1]
    step = (len(items) - 1) / (count - 1)
    return [items[round(i * step)] for i in range(count)]


def samples_of(op: OpInfo, triple: Triple, count: int) -> list[Any]:
    """The samples of a triple, on CPU; the same ones in every run."""
    seed_everything(triple.seed())
    made = op.sample_inputs(
        "cpu",
        getattr(torch, triple.dtype),
        requires_grad=triple.mode == "gradient",
    )
    chosen = pick(list(itertools.islice(made, SAMPLES_LOOKED_AT)), count)
    for sample in chosen:
        require_strided((sample.input, sample.args, sample.kwargs))
    if triple.mode == "inplace":
        chosen = [s for s in chosen if not s.broadcasts_input]
        return [s.noncontiguous() if i % 2 else s for i, s in enumerate(chosen)]
    if triple.mode == "noncontiguous":
        return [s.noncontiguous() for s in chosen]
    return chosen


def run_one(op: OpInfo, triple: Triple, sample: Any, device: str) -> Any:
    """Runs one sample on `device`; the result stays there."""
    torch.manual_seed(CALL_SEED)
    return RUNNERS[triple.mode](op, move_sample(sample, device), device)


def reference(op: OpInfo, triple: Triple, sample: Any) -> tuple[Any, bool] | None:
    """CPU's result and whether it drew random numbers; None where CPU has no answer.

    The sample counts only if CPU agrees with itself on two copies of it.
    """
    found = []
    for _ in range(2):
        torch.manual_seed(CALL_SEED)
        before = torch.get_rng_state()
        try:
            result = RUNNERS[triple.mode](op, move_sample(sample, "cpu"), "cpu")
            found.append(fetch(result))
        except UnsupportedLayout:
            raise
        except Exception:  # also NothingToCompare
            return None
        drew = not torch.equal(before, torch.get_rng_state())
    random_or_undefined = drew or op.name in UNINITIALISED
    differ = compare.differ_in_form if random_or_undefined else compare.differ_in_value
    if differ(found[0], found[1]) is not None:
        return None
    return found[0], drew


def on_device(result: Any, device: str) -> None:
    """Checks that the tensors of a result are where they were asked for."""
    kind = torch.device(device).type
    for leaf in tree_leaves(result):
        if isinstance(leaf, torch.Tensor) and leaf.device.type != kind:
            raise Disagrees(f"a result is on {leaf.device}, want {kind}")


def run_all(op: OpInfo, triple: Triple, samples: list[Any], device: str) -> list[Any]:
    """Records all samples, then reads all results: windows grow as large as they may."""
    results = [run_one(op, triple, sample, device) for sample in samples]
    for result in results:
        on_device(result, device)
    return [fetch(result) for result in results]


def judge(op: OpInfo, wants: list[tuple[Any, bool]], plain: list, lazy: list) -> None:
    """Compares both runs on the device with CPU, and with each other bit for bit."""
    for i, (want, drew) in enumerate(wants):
        undefined = op.name in UNINITIALISED
        if drew or undefined:
            wrong = compare.differ_in_form(plain[i], want)
        else:
            wrong = compare.differ_in_value(plain[i], want)
        if wrong is not None:
            raise Disagrees(f"sample {i}: {wrong}")
        if not undefined:
            wrong = compare.differ_in_bits(lazy[i], plain[i])
            if wrong is not None:
                raise Disagrees(f"sample {i}: adaptive against plain: {wrong}")


def run_samples(op: OpInfo, triple: Triple, count: int, device: str) -> str:
    """Runs a triple of any mode but `errors`; the outcome, or an exception."""
    kept, wants = [], []
    for sample in samples_of(op, triple, count):
        want = reference(op, triple, sample)
        if want is not None:
            kept.append(sample)
            wants.append(want)
    if not kept:
        return "cpu"
    with adaptive(device, False):
        plain = run_all(op, triple, kept, device)
    with adaptive(device, True):
        lazy = run_all(op, triple, kept, device)
    judge(op, wants, plain, lazy)
    return "pass"


def error_of(run: Callable[[], Any]) -> Exception | None:
    """The exception that a call ends with, at the call or when its result is read."""
    try:
        fetch(run())
    except UnsupportedLayout:
        raise
    except Exception as error:
        return error
    return None


def run_errors(op: OpInfo, triple: Triple, device: str) -> str:
    """Wrong calls must raise on the device what they raise on CPU."""
    seed_everything(triple.seed())
    outcome = "cpu"
    for error_input in op.error_inputs("cpu"):
        sample = error_input.sample_input
        try:
            want = error_of(lambda: call_wrongly(op, sample, "cpu"))  # noqa: B023
        except UnsupportedLayout:
            continue
        if not isinstance(want, error_input.error_type):
            continue
        for enabled in (False, True):
            with adaptive(device, enabled):
                got = error_of(lambda: call_wrongly(op, sample, device))  # noqa: B023
            if got is None:
                raise Disagrees(f"raises nothing, want {type(want).__name__}: {want}")
            if type(got) is not type(want):
                raise Disagrees(f"raises {got!r}, want {want!r}")
        outcome = "pass"
    return outcome


def call_wrongly(op: OpInfo, sample: Any, device: str) -> Any:
    """Calls the op with the arguments of an error input."""
    call = move_sample(sample, device)
    return op(call.input, *call.args, **call.kwargs)


def settle(device: str) -> None:
    """Takes a late error off the device, so that it is not blamed on the next op."""
    if torch.device(device).type != "cpu":
        with contextlib.suppress(Exception):
            torch.accelerator.synchronize()


def outcome_of(op: OpInfo, triple: Triple, count: int, device: str) -> dict[str, str]:
    """The outcome of a triple: `pass`, `fail`, `cpu` (CPU itself has no answer, not
    counted), or `layout` (sparse, quantized or nested tensors)."""
    try:
        if triple.mode == "errors":
            return {"outcome": run_errors(op, triple, device)}
        return {"outcome": run_samples(op, triple, count, device)}
    except UnsupportedLayout:
        return {"outcome": "layout"}
    except Exception as error:
        settle(device)
        text = str(error).strip().splitlines() or [""]
        name = "" if isinstance(error, Disagrees) else f"{type(error).__name__}: "
        return {"outcome": "fail", "error": f"{name}{text[0]}"[:400]}


def show_draws(ops: dict[str, OpInfo]) -> None:
    """Undoes OpInfo's hiding of random draws, which `reference` must see.

    `wrapper_set_seed` restores CPU's generator after the call; every call here is seeded
    anyway.
    """
    for op in ops.values():
        names = getattr(op.op, "__globals__", {})
        if "wrapper_set_seed" in names:
            names["wrapper_set_seed"] = lambda call, *args, **kw: call(*args, **kw)


def main() -> None:
    """Answers triples until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    ops = ops_by_name()
    show_draws(ops)
    started = False
    for line in sys.stdin:
        task = json.loads(line)
        if not started:
            # The device turns on MKL's reproducible mode, which must come before any
            # use of MKL on CPU: without it the last bits depend on addresses.
            torch.ones(2, 2, device=task["device"]).sum().item()
            started = True
        triple = Triple(task["op"], task["dtype"], task["mode"])
        answers.write(json.dumps({"start": line.strip()}) + "\n")
        answer = outcome_of(ops[triple.op], triple, task["samples"], task["device"])
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
