"""The simulated clock against what users measured: benchmarks/fidelity as a test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from device_under_test import only_neuron

pytestmark = only_neuron

SCRIPT = Path(__file__).parents[2] / "benchmarks/fidelity/run.py"

#: How far from what users measured a row of benchmarks/fidelity may be; a row that is
#: further away by now is named with its own bound, so that it can only get better.
NEAR = 0.2
FAR = {"ESM-2 650M, eager": 0.45}


@pytest.fixture(scope="module")
def fidelity() -> list[dict]:
    """Every row of the benchmark."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_the_clock_predicts_what_users_measured(fidelity):
    far = {
        row["name"]: round(row["ratio"], 2)
        for row in fidelity
        if abs(row["ratio"] - 1) > FAR.get(row["name"], NEAR)
    }
    assert not far


def test_most_predictions_are_near(fidelity):
    near = sum(abs(row["ratio"] - 1) <= NEAR for row in fidelity)
    assert near >= 0.8 * len(fidelity)
    assert len(fidelity) >= 40


def test_most_rows_are_tests_and_not_fits(fidelity):
    assert sum(row["role"] == "test" for row in fidelity) >= 0.6 * len(fidelity)
