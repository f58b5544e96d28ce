"""The two modes of the device under test, and the folder of the shared helpers."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import device_under_test  # noqa: E402

MODES = ["cpu"] if device_under_test.ON_CPU else ["plain", "adaptive"]


def pytest_report_header() -> str:
    """Says what is tested, as the first lines of the output."""
    import torch

    return f"torch {torch.__version__}, device under test {device_under_test.DUT}"


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest):
    """Runs a test once in plain eager and once in adaptive eager."""
    with device_under_test.adaptive(request.param == "adaptive"):
        yield request.param
