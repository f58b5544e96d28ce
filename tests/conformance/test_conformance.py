"""The conformance sweep as a test; `--full` runs all element types."""

import pathlib
import subprocess
import sys

import pytest

SWEEP = pathlib.Path(__file__).with_name("sweep.py")

#: The quick sweep takes 2 to 4 minutes on two cores, the full one up to 25.
TIMEOUT_S = 3600


@pytest.mark.timeout(TIMEOUT_S)
def test_every_counted_triple_passes_or_is_listed(pytestconfig: pytest.Config) -> None:
    full = ["--full"] if pytestconfig.getoption("--full", default=False) else []
    done = subprocess.run(
        [sys.executable, str(SWEEP), *full], capture_output=True, text=True
    )
    print(done.stdout[-20000:])
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
