"""Registry of the workloads.

`jit` is the one line a user adds to compile: identity in every eager mode.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

WORKLOADS = {}
_wrap = None


@dataclass
class Workload:
    name: str
    make: Callable
    cls: str  # "overhead" or "compute"
    group: str  # workloads of one group count as one in a geomean
    tol: float  # relative tolerance of the check losses against cpu-eager
    check: int  # how many first steps are compared
    random: (
        bool  # draws random numbers on the device: compared statistically (tol is wide)
    )


def workload(cls, group=None, tol=2e-3, check=5, random=False, name=None):
    def register(make):
        key = name or make.__name__
        assert key not in WORKLOADS, key
        WORKLOADS[key] = Workload(key, make, cls, group or key, tol, check, random)
        return make

    return register


def set_jit(wrap):
    global _wrap
    _wrap = wrap


def jit(f):
    return f if _wrap is None else _wrap(f)


def normal(device, *shape, seed=0, scale=1.0, dtype=torch.float32):
    """Input data, drawn on the host so that every device sees the same numbers."""
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=g) * scale).to(dtype).to(device)


def ints(device, high, *shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(high, shape, generator=g).to(device)


def load():
    """Import every workload file that is present."""
    import importlib
    import pathlib

    for path in sorted(pathlib.Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"{__name__}.{path.stem}")
    return WORKLOADS
