"""The device under test, and how its results are compared with CPU's.

A case is a function of a device string. `check` runs it on `cpu` and on the device under
test and compares what a user can see: values, dtypes, shapes and, where a case asks for
it, strides. `expect=` adds a hand-worked answer, so that a case says something even when
both devices are CPU.

Environment:
  DUT        the device under test (default `neuron`; `cpu` checks the cases themselves)
  DUT_LARGE  1: also the case that needs 2.5 GiB
  DUT_SLOW   factor on time limits; they also relax while the machine is busy
"""

import contextlib
import functools
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

DUT = os.environ.get("DUT", "neuron")
KIND = torch.device(DUT).type
LARGE = os.environ.get("DUT_LARGE", "0") == "1"
SLOW = float(os.environ.get("DUT_SLOW", "1.0"))
ON_CPU = KIND == "cpu"

#: Floats that one operation rounded to float32 agree to a few last places.
FLOAT_RTOL = 1e-5
FLOAT_ATOL = 1e-6

#: Hand-worked answers are written with about five digits.
EXPECT_TOLERANCE = 1e-4

only_neuron = pytest.mark.skipif(
    ON_CPU, reason="for ever: asks for a neuron device, the device under test is CPU"
)


def ref(*threads: str) -> Callable:
    """Names the public threads (owner/name#number) that a case comes from."""

    def decorate(case: Callable) -> Callable:
        @functools.wraps(case)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return case(*args, **kwargs)

        inner.refs = threads
        inner.__doc__ = f"{case.__doc__ or ''} [{', '.join(threads)}]"
        return inner

    return decorate


def line_after(function: Callable, offset: int) -> str:
    """ "file:line" of a line of a test's file, counted from the head of `function`."""
    code = function.__code__
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno + offset}"


@contextlib.contextmanager
def adaptive(enabled: bool) -> Iterator[None]:
    """Adaptive eager on or off; nothing where the device under test is CPU."""
    if ON_CPU:
        yield
        return
    with torch.neuron.adaptive_eager(enabled=enabled):
        yield


def slow() -> float:
    """Factor on time limits: wall clocks mean little on a busy machine."""
    return SLOW * max(1.0, 3.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


def inp(
    *shape: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    lo: float = -2.0,
    hi: float = 2.0,
) -> torch.Tensor:
    """A repeatable CPU tensor, made without touching the global generators."""
    generator = torch.Generator().manual_seed(1000 + seed)

    def uniform() -> torch.Tensor:
        return torch.rand(*shape, generator=generator) * (hi - lo) + lo

    if dtype.is_floating_point:
        return uniform().to(dtype)
    if dtype.is_complex:
        return torch.complex(uniform(), uniform()).to(dtype)
    if dtype == torch.bool:
        return torch.rand(*shape, generator=generator) > 0.5
    return torch.randint(int(lo), int(hi) + 1, shape, generator=generator).to(dtype)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's value as an ordinary dense CPU tensor."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.to("cpu").resolve_conj().resolve_neg()


def seen_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions in which a stride can be observed."""
    if tensor.numel() < 2:
        return ()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in pairs if size > 1)


def same_tensor(
    got: Any,
    want: torch.Tensor,
    *,
    exact: bool = False,
    strides: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    device: str | None = None,
    where: str = "result",
) -> None:
    """Asserts that two tensors look alike: type, shape, device, flags, values."""
    assert isinstance(got, torch.Tensor), f"{where}: not a tensor"
    assert got.dtype == want.dtype, f"{where}: dtype {got.dtype}, want {want.dtype}"
    assert got.shape == want.shape, (
        f"{where}: shape {tuple(got.shape)}, want {tuple(want.shape)}"
    )
    if device is not None:
        assert got.device.type == torch.device(device).type, f"{where}: on {got.device}"
    assert got.requires_grad == want.requires_grad, f"{where}: requires_grad differs"
    if strides:
        assert seen_strides(got) == seen_strides(want), (
            f"{where}: strides {got.stride()}, want {want.stride()}"
        )
    if exact:
        rtol = atol = 0.0
    torch.testing.assert_close(
        host(got),
        host(want),
        rtol=rtol,
        atol=atol,
        equal_nan=True,
        msg=lambda message: f"{where}: {message}",
    )


def same(got: Any, want: Any, *, where: str = "result", **how: Any) -> None:
    """Asserts that two results agree; lists, tuples and dicts item by item."""
    if isinstance(want, torch.Tensor):
        same_tensor(got, want, where=where, **how)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{where}: length {len(got)}, want {len(want)}"
        for i, (one, other) in enumerate(zip(got, want, strict=True)):
            same(one, other, where=f"{where}[{i}]", **how)
    elif isinstance(want, dict):
        assert sorted(got) == sorted(want), f"{where}: keys differ"
        for key in want:
            same(got[key], want[key], where=f"{where}[{key!r}]", **how)
    elif isinstance(want, float):
        exact = how.get("exact", False)
        tolerance = 0.0 if exact else max(FLOAT_ATOL, abs(want) * FLOAT_RTOL)
        both_nan = got != got and want != want
        assert got == want or both_nan or abs(got - want) <= tolerance, (
            f"{where}: {got!r}, want {want!r}"
        )
    else:
        assert got == want, f"{where}: {got!r}, want {want!r}"


def plain(value: Any) -> Any:
    """Python lists and numbers from a result, for comparing with `expect`."""
    if isinstance(value, torch.Tensor):
        return host(value).tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def near(a: Any, b: Any, tolerance: float = EXPECT_TOLERANCE) -> bool:
    """Whether two nests of lists and numbers agree."""
    if isinstance(b, (list, tuple)):
        return (
            isinstance(a, (list, tuple))
            and len(a) == len(b)
            and all(near(x, y, tolerance) for x, y in zip(a, b, strict=True))
        )
    if isinstance(b, float) or isinstance(a, float):
        both_nan = a != a and b != b
        return both_nan or a == b or abs(a - b) <= tolerance * max(1.0, abs(b))
    return a == b


def check(
    case: Callable[[str], Any], expect: Any = None, on_device: bool = True, **how: Any
) -> Any:
    """Runs the case on CPU and on the device under test; both must show the same."""
    want = case("cpu")
    if expect is not None:
        assert near(plain(want), expect), (
            f"cpu itself: {plain(want)!r}, hand-worked {expect!r}"
        )
    got = case(DUT)
    same(got, want, device=DUT if on_device else None, **how)
    return got


def both_raise(case: Callable[[str], Any], exception: Any = Exception) -> None:
    """The case is an error on CPU, so it must be one on the device too."""
    for device in ("cpu", DUT):
        with pytest.raises(exception):
            out = case(device)
            # A lazy device may put off what depends on values until they are read.
            for item in out if isinstance(out, (list, tuple)) else [out]:
                if isinstance(item, torch.Tensor):
                    item.to("cpu")


def module(make: Callable[[], torch.nn.Module], device: str, seed: int = 0) -> Any:
    """A module with the same weights on every device: built on CPU, then moved."""
    torch.manual_seed(seed)
    return make().to(device)


def grads(net: torch.nn.Module) -> list[torch.Tensor | None]:
    """The gradients of all parameters, in their order."""
    return [p.grad for p in net.parameters()]


def sync() -> None:
    """Waits for all work of the device under test."""
    if not ON_CPU:
        torch.accelerator.synchronize()


def per_step(step: Callable[[int], Any], count: int) -> list[float]:
    """Seconds for each of step(0), step(1), ..., the device settled in between."""
    seconds = []
    for i in range(count):
        start = time.perf_counter()
        step(i)
        sync()
        seconds.append(time.perf_counter() - start)
    return seconds


def roundtrip(value: Any, **how: Any) -> Any:
    """`torch.save` to memory and `torch.load` again."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **how)


def rss_mib() -> float:
    """Resident memory of this process in MiB."""
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run_script(
    source: str,
    *,
    env: dict[str, str] | None = None,
    timeout: float = 120.0,
    args: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs Python source in a process of its own, with DUT and changes to `env`."""
    return subprocess.run(
        [sys.executable, "-c", source, *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "DUT": DUT, **(env or {})},
    )
