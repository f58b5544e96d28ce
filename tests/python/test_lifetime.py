"""Leaks, forks, and threads."""

import gc
import multiprocessing
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

from device_under_test import DUT, inp, module, only_neuron, rss_mib, run_script, sync

#: Steps of a loop that must hold a flat amount of memory, and of its warm-up.
STEPS = 10_000
WARM_UP = 1_000

#: Growth of resident memory over the loop that is noise of the allocators.
NOISE_MIB = 30

#: Nothing here takes seconds; only a hang takes this long.
HANG_S = 60


def train(net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """One step without looking at anything."""
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()


@pytest.mark.serial
def test_training_loop_holds_flat_memory(mode: str):
    net = module(lambda: nn.Sequential(nn.Linear(16, 16), nn.Tanh()), DUT)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    x = inp(8, 16).to(DUT)
    for _ in range(WARM_UP):
        train(net, optimizer, x)
    sync()
    gc.collect()
    rss = rss_mib()
    held = torch.accelerator.memory_allocated() if DUT != "cpu" else 0
    for _ in range(STEPS):
        train(net, optimizer, x)
    sync()
    gc.collect()
    if DUT != "cpu":
        assert torch.accelerator.memory_allocated() == held
    assert rss_mib() - rss < NOISE_MIB


@pytest.mark.serial
@pytest.mark.usefixtures("mode")
def test_reading_loop_with_changing_scalars_holds_flat_memory():
    x = inp(64).to(DUT)

    def step(i: int) -> float:
        return ((x * (1 + i * 1e-6)).clamp(-1.0 - i * 1e-7, 1.0).sum() + i).item()

    for i in range(WARM_UP):
        step(i)
    gc.collect()
    rss = rss_mib()
    for i in range(STEPS):
        step(WARM_UP + i)
    gc.collect()
    assert rss_mib() - rss < NOISE_MIB


@pytest.mark.serial
@pytest.mark.usefixtures("mode")
def test_loop_with_changing_shapes_holds_flat_memory():
    def step(i: int) -> None:
        x = torch.ones(i % 997 + 1, 3, device=DUT)
        (x.t() @ x).relu().sum().item()

    for i in range(2 * WARM_UP):
        step(i)
    gc.collect()
    rss = rss_mib()
    for i in range(STEPS // 2):
        step(i)
    gc.collect()
    assert rss_mib() - rss < NOISE_MIB


@only_neuron
@pytest.mark.usefixtures("mode")
def test_streams_and_events_do_not_leak():
    def step() -> None:
        stream, event = torch.neuron.Stream(), torch.neuron.Event(enable_timing=True)
        with torch.neuron.stream(stream):
            torch.ones(4, device=DUT).add_(1)
            event.record()
        event.synchronize()

    for _ in range(WARM_UP):
        step()
    gc.collect()
    rss = rss_mib()
    for _ in range(3 * WARM_UP):
        step()
    gc.collect()
    assert rss_mib() - rss < NOISE_MIB


@only_neuron
@pytest.mark.usefixtures("mode")
def test_exceptions_do_not_leak_tensors():
    torch.neuron.synchronize()
    gc.collect()
    held = torch.neuron.memory_allocated()
    for _ in range(100):
        with pytest.raises(RuntimeError):
            torch.ones(1000, device=DUT).add(1) @ torch.ones(4, 4, device=DUT)
    gc.collect()
    torch.neuron.synchronize()
    assert torch.neuron.memory_allocated() == held


# ---- forks -------------------------------------------------------------------------


class Rows(torch.utils.data.Dataset):
    """Rows that a worker makes on CPU."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("pin", [False, True])
def test_loader_workers_work_after_use(pin: bool):
    if pin and DUT == "cpu":
        pytest.skip("for ever: CPU has no pinned memory, the device under test is CPU")
    pending = torch.ones(16, device=DUT) * 2
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=8, num_workers=2, pin_memory=pin, timeout=HANG_S
    )
    total = sum(batch.to(DUT, non_blocking=pin).sum() for batch in loader)
    assert total.item() == 4 * sum(range(32))
    assert pending.sum().item() == 32.0


@pytest.mark.usefixtures("mode")
def test_persistent_workers_over_epochs():
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=8, num_workers=2, persistent_workers=True, timeout=HANG_S
    )
    for _ in range(3):
        assert sum(b.to(DUT).sum() for b in loader).item() == 4 * sum(range(32))


def in_child(target, *args: object) -> object:
    """What a forked child puts into its queue; fails if the child hangs or dies."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=target, args=(answers, *args))
    child.start()
    child.join(HANG_S)
    if child.is_alive():
        child.kill()
        pytest.fail("the child hangs")
    assert child.exitcode == 0, f"the child ends with {child.exitcode}"
    return answers.get()


def touch_device(answers, what) -> None:
    """In a child: touches the device and answers with the error."""
    try:
        what()
        answers.put("no error")
    except RuntimeError as error:
        answers.put(str(error))


@only_neuron
@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(
    "what",
    [
        lambda: torch.ones(3, device=DUT).sum().item(),
        lambda: torch.neuron.synchronize(),
        lambda: torch.ones(3).to(DUT),
        lambda: torch.neuron.Stream(),
        lambda: torch.neuron.manual_seed(3) or torch.rand(3, device=DUT),
    ],
    ids=["op", "synchronize", "copy", "stream", "random"],
)
def test_forked_child_that_touches_the_device_gets_an_error(what):
    torch.ones(3, device=DUT).sum().item()
    message = in_child(touch_device, what)
    assert "fork" in message and "spawn" in message, message


@only_neuron
@pytest.mark.usefixtures("mode")
def test_forked_child_cannot_read_a_tensor_of_its_parent():
    x = torch.ones(3, device=DUT) + 1
    message = in_child(touch_device, x.sum().item)
    assert "fork" in message, message
    assert x.tolist() == [2.0] * 3


def report_cpu_sum(answers) -> None:
    """In a child: uses CPU only."""
    answers.put((torch.ones(3) * 2).sum().item())


@pytest.mark.usefixtures("mode")
def test_forked_child_may_use_cpu():
    torch.ones(3, device=DUT).sum().item()
    assert in_child(report_cpu_sum) == 6.0


@only_neuron
def test_is_available_starts_nothing():
    source = (
        "import os, torch\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "assert torch.neuron.is_available() and torch.neuron.device_count() == 1\n"
        "assert torch.accelerator.is_available()\n"
        "assert len(os.listdir('/proc/self/task')) == before\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    value = torch.ones(3, device='neuron').sum().item()\n"
        "    os._exit(0 if value == 3.0 else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = run_script(source, timeout=HANG_S)
    assert done.stdout.split() == ["0"], done.stderr[-2000:]


@only_neuron
def test_import_and_seed_start_nothing():
    source = (
        "import os, torch\n"
        "torch.manual_seed(3)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if torch.ones(3, device='neuron').sum().item() == 3.0 else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = run_script(source, timeout=HANG_S)
    assert done.stdout.split() == ["0"], done.stderr[-2000:]


@only_neuron
def test_spawned_child_may_use_the_device(tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text(
        "import multiprocessing, torch\n"
        "def work(answers): answers.put(torch.ones(3, device='neuron').sum().item())\n"
        "if __name__ == '__main__':\n"
        "    torch.ones(2, device='neuron').sum().item()\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    answers = context.SimpleQueue()\n"
        "    child = context.Process(target=work, args=(answers,))\n"
        "    child.start(); print(answers.get()); child.join(); print(child.exitcode)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=HANG_S
    )
    assert done.stdout.split() == ["3.0", "0"], done.stderr[-2000:]


# ---- threads -----------------------------------------------------------------------


def in_threads(count: int, work) -> None:
    """Runs work(0), work(1), ... at the same time and raises what they raise."""
    errors = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
        assert not thread.is_alive(), "a thread hangs"
    for error in errors:
        raise error


@pytest.mark.usefixtures("mode")
def test_two_threads_train_on_one_device():
    def work(index: int, results: dict) -> None:
        net = nn.Linear(8, 8).to(DUT)
        with torch.no_grad():
            net.weight.fill_(0.01 * (index + 1))
            net.bias.zero_()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(100):
            train(net, optimizer, torch.ones(4, 8, device=DUT))
        results[index] = net.weight.detach().cpu()

    together: dict = {}
    in_threads(2, lambda index: work(index, together))
    alone: dict = {}
    for index in range(2):
        work(index, alone)
    for index in range(2):
        assert torch.equal(together[index], alone[index])


@pytest.mark.usefixtures("mode")
def test_threads_see_each_others_writes_in_order():
    x = torch.zeros(100, device=DUT)
    turn = threading.Barrier(2)

    def work(index: int) -> None:
        for step in range(100):
            if step % 2 == index:
                x.add_(1)
                x.mul_(0.5)
            turn.wait(HANG_S)

    in_threads(2, work)
    want = torch.zeros(100)
    for _ in range(100):
        want = (want + 1) * 0.5
    assert torch.equal(x.cpu(), want)


@only_neuron
def test_thread_that_reads_does_not_stop_a_thread_that_records():
    def work(index: int) -> None:
        x = torch.ones(32, device=DUT)
        for i in range(300):
            x = x * 1.0
            if index:
                assert x.sum().item() == 32.0
            elif i % 50 == 0:
                torch.neuron.set_adaptive_eager(i % 100 == 0)

    before = torch.neuron.is_adaptive_eager()
    try:
        in_threads(3, work)
    finally:
        torch.neuron.set_adaptive_eager(before)
