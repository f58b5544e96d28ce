"""The simulated clock: what it counts, and that it repeats."""

import pytest
import torch

from device_under_test import DUT, only_neuron, run_script

pytestmark = only_neuron

MIB = 1 << 20


def figures() -> dict[str, float]:
    """The constants of the chip by name."""
    return {name: value for name, value, *_ in torch.neuron.clock_figures()}


def timed(call) -> "torch.neuron.StepTime":
    """What `call` costs, with nothing pending before it; its result is wanted."""
    torch.neuron.synchronize()
    kept = []
    with torch.neuron.time_step() as step:
        kept.append(call())
    return step


def train_step() -> float:
    """A step with products, pointwise ops, reductions, a copy and a read."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU()).to(DUT)
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(torch.ones(16, 32).to(DUT)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_the_same_program_costs_the_same(mode):
    train_step()
    first, second = timed(train_step), timed(train_step)
    assert first.simulated_ms == pytest.approx(second.simulated_ms, abs=1e-9)
    assert first.launches == second.launches > 0
    assert first.hbm_bytes == second.hbm_bytes > 0


TWICE = """
import torch
def work():
    x = torch.ones(512, 512, device='neuron')
    for _ in range(30): x = (x @ x).softmax(-1).add(1)
    return x.sum().item()
work()
print(repr(torch.neuron.device_time()))
"""


def test_the_cost_does_not_depend_on_the_process():
    done = [run_script(TWICE, env={"NEURON_ADAPTIVE_EAGER": "1"}) for _ in range(2)]
    assert done[0].stdout == done[1].stdout != "", done[0].stderr[-2000:]


def test_the_same_in_a_dry_run(mode):
    def work():
        x = torch.ones(64, 64, device=DUT)
        for _ in range(10):
            x = (x @ x).softmax(-1)
        torch.neuron.synchronize()

    work()
    real = timed(work)
    with torch.neuron.dry_run():
        dry = timed(work)
    assert dry.simulated_ms == pytest.approx(real.simulated_ms, abs=1e-9)
    assert dry.launches == real.launches


def test_a_dry_run_takes_no_memory_and_ends():
    with torch.neuron.dry_run():
        x = torch.ones(4 << 30, dtype=torch.uint8, device=DUT)  # 4 GiB, never touched
        torch.neuron.synchronize()
        del x
    assert torch.ones(4, device=DUT).sum().item() == 4


def test_an_eager_op_costs_a_launch_and_its_bytes():
    x = torch.ones(MIB, device=DUT)
    with torch.neuron.adaptive_eager(False):
        step = timed(lambda: x + 1)
    assert step.launches == step.ops == 1
    assert step.hbm_bytes == 8 * MIB
    assert step.simulated_ms > figures()["launch"] * 1e-6


def test_adaptive_eager_costs_its_fused_programs():
    def chain():
        y = x
        for _ in range(10):
            y = torch.sin(y + 1)
        return y

    x = torch.ones(MIB, device=DUT)
    with torch.neuron.adaptive_eager(False):
        chain()
        plain = timed(chain)
    with torch.neuron.adaptive_eager(True):
        chain()
        fused = timed(chain)
    assert (plain.launches, fused.launches) == (20, 2)  # the first window holds 16 ops
    assert fused.hbm_bytes < plain.hbm_bytes / 4
    assert fused.simulated_ms < plain.simulated_ms / 2


def test_elapsed_time_is_simulated(mode):
    x = torch.ones(16 * MIB, device=DUT)
    x.add_(1)
    torch.neuron.synchronize()
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.neuron.synchronize()
    x.add_(1)
    end.record()
    end.synchronize()
    bytes_ms = 2 * x.nbytes / (2 * 362.5 * 0.8) * 1e-6
    assert start.elapsed_time(end) == pytest.approx(bytes_ms, abs=0.2)
    assert start.elapsed_time(end) > bytes_ms


def test_elapsed_time_of_nothing_is_nothing():
    with torch.neuron.adaptive_eager(False):
        start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) == 0


def test_wall_time_has_a_name_of_its_own(mode):
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(8, device=DUT).add_(1)
    end.record()
    assert torch.neuron.elapsed_wall_time(start, end) > 0


def test_wall_time_of_events_without_timing_is_refused():
    start, end = torch.neuron.Event(), torch.neuron.Event()
    with pytest.raises(RuntimeError, match="must be recorded"):
        torch.neuron.elapsed_wall_time(start, end)
    start.record(), end.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.neuron.elapsed_wall_time(start, end)


def test_device_time_goes_on(mode):
    before = torch.neuron.device_time()
    assert torch.neuron.device_time() == before
    torch.ones(8, device=DUT).add_(1)
    assert torch.neuron.device_time() > before


def test_copies_cost_the_link(mode):
    host = torch.ones(8 * MIB)
    there = torch.empty(8 * MIB, device=DUT)
    up = timed(lambda: there.copy_(host))
    down = timed(there.cpu)
    wanted = host.nbytes / figures()["link_rate"] * 1e-6
    assert up.bytes_to_device == down.bytes_to_host == host.nbytes
    assert up.simulated_ms == pytest.approx(wanted, rel=0.02)
    assert down.simulated_ms == pytest.approx(wanted, rel=0.02)
    assert up.launches == down.launches == 0


def test_copies_of_another_stream_overlap_with_computing():
    """A download to pinned memory and a product take as long as the longer of both."""
    x = torch.ones(16 * MIB, device=DUT)
    pinned = torch.empty(16 * MIB).pin_memory()
    a = torch.ones(2048, 2048, device=DUT)

    def copy():
        pinned.copy_(x, non_blocking=True)

    def compute():
        for _ in range(4):
            a @ a

    def both(stream):
        with torch.neuron.stream(stream):
            copy()
        compute()

    with torch.neuron.dry_run():
        compute()
        alone = [timed(copy).simulated_ms, timed(compute).simulated_ms]
        same = timed(lambda: both(torch.neuron.default_stream())).simulated_ms
        other = timed(lambda: both(torch.neuron.Stream())).simulated_ms
    assert same == pytest.approx(sum(alone), rel=0.05)
    assert other == pytest.approx(max(alone), rel=0.05)


def test_an_op_on_the_host_costs_what_users_saw(mode):
    torch.neuron.clear_op_tracking()
    x = torch.ones(64, 64, device=DUT)
    step = timed(lambda: torch.linalg.matrix_exp(x))
    assert torch.neuron.get_fallback_ops()
    assert step.host_ops > 0
    assert step.simulated_ms > figures()["host_op"] * 1e-6 * step.host_ops


def test_a_step_has_a_summary():
    text = str(timed(train_step))
    for word in ("simulated", "wall", "launches", "HBM", "tensor", "dma"):
        assert word in text
    step = timed(train_step)
    assert 0 < step.device_ms <= step.simulated_ms
    assert 0 < step.host_ms <= step.simulated_ms
    assert step.wall_ms > 0
    assert all(0 <= share <= 1 for share in step.utilisation.values())
    with pytest.raises(AttributeError, match="has no attribute 'speed'"):
        _ = step.speed


CHIP = """
import torch
x = torch.ones(1 << 24, device='neuron')
torch.neuron.synchronize()
with torch.neuron.time_step() as step: x.add_(1)
p = torch.neuron.get_device_properties()
print(p.name, p.total_memory >> 30, torch.neuron.get_device_capability()[0])
print(step.device_ms)
"""


def test_trainium3_is_another_chip():
    times = {}
    for name, wanted in (("trn2", "trn2 24 3"), ("gen4", "trn3 36 4")):
        done = run_script(CHIP, env={"NEURON_PLATFORM_TARGET_OVERRIDE": name})
        chip, milliseconds = done.stdout.splitlines()
        assert chip == wanted, done.stderr[-2000:]
        times[name] = float(milliseconds)
    assert times["gen4"] < 0.75 * times["trn2"]


def test_one_physical_core_is_half_a_device():
    done = run_script(CHIP, env={"NEURON_LOGICAL_NC_CONFIG": "1"})
    assert done.stdout.startswith("trn2 12 3"), done.stderr[-2000:]


def test_a_chip_that_is_not_simulated_is_refused():
    done = run_script(CHIP, env={"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1"})
    assert "NEURON_PLATFORM_TARGET_OVERRIDE" in done.stderr
    assert "expected trn2, gen3, trn3 or gen4" in done.stderr
