"""Numbers that a tensor's type does not hold: an error or a wrap, as on the CPU."""

import pytest
import torch

from device_under_test import DUT

pytestmark = pytest.mark.usefixtures("mode")


def ints(device: str, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.tensor([1, 2], dtype=dtype, device=device)


CASES = {
    "add_wraps": lambda d: ints(d) + 300,
    "mul_wraps": lambda d: ints(d) * -1,
    "add_int32_wraps": lambda d: ints(d, torch.int32) + 2**40,
    "alpha": lambda d: torch.add(ints(d), ints(d), alpha=300),
    "compare_wraps": lambda d: ints(d) < -1,
    "compare": lambda d: ints(d) == 300,
    "fill": lambda d: ints(d).fill_(300),
    "fill_negative": lambda d: ints(d).fill_(-1),
    "fill_fraction": lambda d: ints(d).fill_(1.5),
    "fill_nan": lambda d: ints(d, torch.int32).fill_(float("nan")),
    "fill_bool": lambda d: torch.tensor([False], device=d).fill_(0.5),
    "full": lambda d: torch.full((2,), 2**40, dtype=torch.int32, device=d),
    "clamp": lambda d: ints(d).clamp(-5, 300),
    "where": lambda d: torch.where(ints(d) > 1, ints(d), 300),
    "masked_fill": lambda d: ints(d).masked_fill(ints(d) > 1, 300),
    "threshold": lambda d: torch.threshold(ints(d, torch.int32), 1, 2**40),
    "float_fill": lambda d: torch.tensor([1.0], device=d).fill_(1e60),
    "float_fill_inf": lambda d: torch.tensor([1.0], device=d).fill_(float("inf")),
    "float_mul": lambda d: torch.tensor([1.0], device=d) * 1e60,
    "foreach_float_to_int": lambda d: torch._foreach_add_([ints(d)], 2.5),
}


def outcome(case: str, device: str):
    """The values, or that there was an error; on the device it may come late."""
    try:
        result = CASES[case](device)
        if device != "cpu":
            torch.accelerator.synchronize()
        return None if result is None else result.tolist()
    except (RuntimeError, IndexError, TypeError):
        return "error"


@pytest.mark.parametrize("case", CASES)
def test_numbers_out_of_range_behave_as_on_the_cpu(case: str):
    assert outcome(case, DUT) == outcome(case, "cpu")
