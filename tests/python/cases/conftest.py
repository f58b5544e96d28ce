"""Every case runs in both modes."""

import pytest


@pytest.fixture(autouse=True)
def _in_both_modes(mode: str) -> None:
    """Requests the two modes for each case of this folder."""
