"""Exits with work pending, by an exception, and by an interrupt."""

import os
import signal
import subprocess
import sys

import pytest

from device_under_test import DUT, run_script

#: Nothing here takes seconds; only a hang takes this long.
HANG_S = 60

PREPARE = "import os, torch\nd = os.environ['DUT']\n"

EXITS = {
    "backward_is_the_last_line": (
        "x = torch.ones(4, 4, device=d, requires_grad=True)\n"
        "loss = (x @ x).sum()\n"
        "loss.backward()\n"
    ),
    "work_is_pending": (
        "x = torch.ones(256, 256, device=d)\nfor _ in range(500): x = (x @ x) / 256\n"
    ),
    "pending_global_with_a_graph": (
        "net = torch.nn.Linear(4, 4).to(d)\n"
        "hook = net.weight.register_hook(lambda g: g * 2)\n"
        "y = net(torch.ones(2, 4, device=d))\n"
        "y.sum().backward()\n"
        "z = y * 2\n"
    ),
    "streams_are_busy": (
        "s = torch.Stream(device=d) if d != 'cpu' else None\n"
        "if s is not None:\n"
        "    with s: x = torch.ones(64, 64, device=d) @ torch.ones(64, 64, device=d)\n"
    ),
    "thread_is_recording": (
        "import threading\n"
        "def work():\n"
        "    x = torch.ones(8, device=d)\n"
        "    for _ in range(20000): x = x * 1.0\n"
        "threading.Thread(target=work).start()\n"
        "torch.ones(3, device=d).sum().item()\n"
    ),
    "nothing_ran": "",
    "only_a_copy": "x = torch.ones(3).to(d)\n",
    "late_error_is_pending": (
        "x = torch.zeros(3, device=d)\n"
        "i = torch.tensor([7 if d != 'cpu' else 1], device=d)\n"
        "x.index_add_(0, i, x[:1].clone())\n"
    ),
    "sys_exit": "x = torch.ones(3, device=d) + 1\nimport sys; sys.exit(0)\n",
    "tensor_in_a_cycle": (
        "class Node: pass\nn = Node(); n.me = n; n.x = torch.ones(3, device=d) + 1\n"
    ),
    "atexit_uses_the_device": (
        "import atexit\n"
        "x = torch.ones(3, device=d) + 1\n"
        "atexit.register(lambda: print(x.sum().item()))\n"
    ),
}


@pytest.mark.parametrize("adaptive", ["0", "1"])
@pytest.mark.parametrize("body", EXITS.values(), ids=EXITS)
def test_exit_is_clean(body: str, adaptive: str):
    done = run_script(
        PREPARE + body, env={"NEURON_ADAPTIVE_EAGER": adaptive}, timeout=HANG_S
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert "terminate called" not in done.stderr


@pytest.mark.parametrize("adaptive", ["0", "1"])
def test_exit_after_backward_is_clean_every_time(adaptive: str):
    """The autograd engine's device thread may lose a race at exit: try often."""
    body = PREPARE + EXITS["backward_is_the_last_line"]
    for _ in range(8):
        done = run_script(body, env={"NEURON_ADAPTIVE_EAGER": adaptive}, timeout=HANG_S)
        assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


@pytest.mark.parametrize("adaptive", ["0", "1"])
def test_exit_by_an_exception_shows_the_exception(adaptive: str):
    done = run_script(
        PREPARE
        + "x = torch.ones(64, 64, device=d, requires_grad=True)\n"
        + "(x @ x).sum().backward()\n"
        + "raise ValueError('from the script')\n",
        env={"NEURON_ADAPTIVE_EAGER": adaptive},
        timeout=HANG_S,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ValueError: from the script")


@pytest.mark.parametrize("adaptive", ["0", "1"])
@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n    x = x * 1.0001\n",
        "while True:\n    x = (x @ x) / 128\n    x.sum().item()\n",
        "while True:\n    (w * x).sum().backward()\n",
    ],
    ids=["recording", "reading", "backward"],
)
def test_interrupt_ends_a_loop_with_keyboard_interrupt(loop: str, adaptive: str):
    source = (
        PREPARE
        + "x = torch.ones(128, 128, device=d)\n"
        + "w = torch.ones(128, 128, device=d, requires_grad=True)\n"
        + "print('ready', flush=True)\n"
        + loop
    )
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DUT": DUT, "NEURON_ADAPTIVE_EAGER": adaptive},
    )
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG_S)
    finally:
        process.kill()
    assert process.returncode in (130, -signal.SIGINT), errors[-2000:]
    assert "KeyboardInterrupt" in errors
