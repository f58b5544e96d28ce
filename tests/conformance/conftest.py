"""The option `--full` of the conformance test, and the folder of the sweep's modules."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--full`: all element types instead of two of every op."""
    parser.addoption("--full", action="store_true", help="the whole conformance sweep")
