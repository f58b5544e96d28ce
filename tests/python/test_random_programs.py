"""Random programs give the same bits in every mode, and CPU's values to a tolerance."""

import os
import random
import subprocess
import sys

import pytest
import torch

import program_grammar
import random_program
from device_under_test import DUT, ON_CPU, adaptive
from random_program import Program, digest, write_program

SEEDS = range(int(os.environ.get("NEURON_TEST_PROGRAMS", "200")))

#: Programs of the process that is launch-blocking from its start.
BLOCKING_PROGRAMS = 30

#: A print after a statement with this chance.
PRINT_CHANCE = 0.25

#: Programs are chains of tens of ops. float32 and float64 lose a few digits on the way.
#: The half types lose more: one rounding that falls the other way in the device's own
#: exp or tanh is 2^-8 of a value, and sums and squares of a chain amplify it.
TOLERANCES = {
    torch.float32: (1e-3, 1e-3),
    torch.float64: (1e-5, 1e-5),
    torch.bfloat16: (0.1, 0.1),
    torch.float16: (0.02, 0.02),
}

#: Attempts at making a failing program shorter.
SHRINK_ATTEMPTS = 300


def run_plain(program: Program) -> str:
    """The digest of a run in plain eager."""
    with adaptive(False):
        return digest(program.run(DUT))


def run_adaptive(program: Program) -> str:
    """The digest of a run in adaptive eager."""
    with adaptive(True):
        return digest(program.run(DUT))


def run_with_prints(program: Program) -> str:
    """The digest of a run in adaptive eager in which Python prints tensors."""
    dice = random.Random(program.seed)

    def look(tensor: torch.Tensor) -> None:
        if dice.random() < PRINT_CHANCE:
            repr(tensor)

    with adaptive(True):
        return digest(program.run(DUT, look))


def run_blocking(program: Program) -> str:
    """The digest of a run in which every op is synchronous."""
    if ON_CPU:
        return run_plain(program)
    torch.neuron.set_launch_blocking(True)
    try:
        return run_plain(program)
    finally:
        torch.neuron.set_launch_blocking(False)


def run_switching(program: Program) -> str:
    """The digest of a run in which the mode changes at random places."""
    dice = random.Random(program.seed + 1)

    def look(tensor: torch.Tensor) -> None:
        if not ON_CPU and dice.random() < PRINT_CHANCE:
            torch.neuron.set_adaptive_eager(dice.random() < 0.5)

    with adaptive(True):
        return digest(program.run(DUT, look))


MODES = {
    "adaptive": run_adaptive,
    "prints": run_with_prints,
    "blocking": run_blocking,
    "switching": run_switching,
}


def wrong_in(program: Program) -> str | None:
    """What is wrong with a program; None if all modes agree with each other and CPU."""
    want = program.run("cpu")
    with adaptive(False):
        got = program.run(DUT)
    for name in sorted(want):
        one, other = got[name], want[name]
        if one.dtype != other.dtype:
            return f"{name}: dtype {one.dtype}, CPU has {other.dtype}"
        if name not in program.comparable:
            continue
        if one.shape != other.shape:
            return f"{name}: shape {tuple(one.shape)}, CPU has {tuple(other.shape)}"
        rtol, atol = TOLERANCES.get(one.dtype, (0.0, 0.0))
        if not torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True):
            worst = (one.double() - other.double()).abs().max()
            return f"{name}: differs from CPU by {worst:.3g}"
    plain = digest(got)
    for mode, run in MODES.items():
        if run(program) != plain:
            return f"{mode} differs from plain eager in some bit"
    return None


def fails(program: Program) -> str | None:
    """As `wrong_in`; an exception on the device counts, one on CPU does not."""
    try:
        program.run("cpu")
    except Exception:
        return None
    try:
        return wrong_in(program)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def shrink(program: Program) -> Program:
    """The program without the statements that its failure does not need."""
    attempts = 0
    index = len(program.statements) - 1
    while index >= 0 and attempts < SHRINK_ATTEMPTS:
        attempts += 1
        shorter = program.without(index)
        if fails(shorter):
            program = shorter
        index -= 1
    return program


def explain(program: Program, wrong: str) -> str:
    """The failure and the shrunk program as Python source."""
    short = shrink(program)
    lines = [f"program {program.seed}: {wrong}"]
    lines += [f"shrunk to {len(short.statements)} statements: {fails(short)}"]
    return "\n".join([*lines, short.source()])


@pytest.mark.parametrize("seed", SEEDS)
def test_program_gives_the_same_bits_in_every_mode(seed: int) -> None:
    program = write_program(seed)
    wrong = fails(program)
    if wrong is not None:
        pytest.fail(explain(program, wrong), pytrace=False)


def test_launch_blocking_by_environment_changes_no_bit() -> None:
    """One process with blocking launches runs the first programs."""
    seeds = [str(seed) for seed in SEEDS[:BLOCKING_PROGRAMS]]
    done = subprocess.run(
        [sys.executable, random_program.__file__, DUT, *seeds],
        capture_output=True,
        text=True,
        env={**os.environ, "NEURON_LAUNCH_BLOCKING": "1", "NEURON_ADAPTIVE_EAGER": "0"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    blocking = dict(line.split() for line in done.stdout.splitlines())
    for seed in seeds:
        program = write_program(int(seed))
        assert blocking[seed] == run_plain(program), program.source()


def test_programs_are_the_same_in_every_process() -> None:
    assert write_program(3).source() == write_program(3).source()


def test_programs_reach_every_kind_of_statement() -> None:
    """The generator must not quietly lose a part of its grammar."""
    text = "\n".join(write_program(seed).source() for seed in range(60))
    for part in ("backward", "out=", "if v", ".item()", "del v", "randn", "@", "[1:]"):
        assert part in text, f"no program has {part}"
    for dtype in (*program_grammar.FLOATS, *program_grammar.INTS[:1]):
        assert str(dtype) in text, f"no program has {dtype}"
