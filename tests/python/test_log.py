"""The live log: topics through `logging`, delivered by a thread of its own."""

import logging
import os
import time

import pytest
import torch

from device_under_test import DUT, only_neuron, run_script

pytestmark = only_neuron

HERE = os.path.basename(__file__)
#: An entry takes milliseconds; only a hang takes this long.
HANG_S = 60


@pytest.fixture(autouse=True)
def adaptive():
    with torch.neuron.adaptive_eager():
        yield
    torch.neuron.set_log()


def run_adaptive(source: str, **env: str):
    done = run_script(source, env={"NEURON_ADAPTIVE_EAGER": "1", **env})
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def test_topics_come_through_logging(caplog):
    x = torch.ones(4096, device=DUT)
    torch.neuron.synchronize()
    torch.neuron.set_log("windows,fusion,cache,fallback")
    ((x * 2 + 1).exp() / x.sum()).tolist()
    torch.kthvalue(x, 7).values.tolist()
    torch.neuron.flush_log()
    by_logger = {}
    for record in caplog.records:
        by_logger.setdefault(record.name, []).append(record.getMessage())
    windows = "\n".join(by_logger["torch_neuronx.windows"])
    assert "by value-read" in windows and HERE in windows
    fusion = "\n".join(by_logger["torch_neuronx.fusion"])
    assert "aten::sum is not pointwise" in fusion
    assert "one kernel of 4 ops" in fusion
    assert "aten::kthvalue" in "\n".join(by_logger["torch_neuronx.fallback"])


def test_entries_come_live_without_a_flush(caplog):
    torch.neuron.set_log("windows")
    torch.ones(4, device=DUT).add(1).tolist()
    end = time.monotonic() + HANG_S
    while not caplog.records and time.monotonic() < end:
        time.sleep(0.001)
    assert "by value-read" in caplog.records[0].getMessage()


def test_only_what_was_asked_for_is_logged(caplog):
    torch.neuron.set_log(["cache"])
    torch.ones(4, device=DUT).add(1).tolist()
    torch.neuron.flush_log()
    assert {record.name for record in caplog.records} <= {"torch_neuronx.cache"}
    torch.neuron.set_log()
    caplog.clear()
    torch.ones(4, device=DUT).add(1).tolist()
    torch.neuron.flush_log()
    assert caplog.records == []
    assert torch.neuron.get_log() == ()


def test_what_is_frequent_is_for_debug(caplog):
    torch.neuron.set_log("cache")
    logging.getLogger("torch_neuronx").setLevel(logging.DEBUG)
    try:
        for _ in range(2):
            torch.ones(9, 9, device=DUT).sort().values.tolist()
        torch.neuron.flush_log()
    finally:
        logging.getLogger("torch_neuronx").setLevel(logging.INFO)
    levels = {record.levelno for record in caplog.records if "hit" in record.message}
    assert levels == {logging.DEBUG}


def test_an_unknown_topic_is_refused():
    with pytest.raises(ValueError, match="expected all or one of windows, fusion"):
        torch.neuron.set_log("window")


def test_the_environment_turns_it_on_and_stderr_shows_it():
    source = "import torch\ntorch.ones(3, device='neuron').add(1).tolist()\n"
    done = run_adaptive(source, NEURON_LOG="windows,fusion")
    assert "[torch_neuronx.windows] window 1 of stream 0" in done.stderr
    assert "torch_neuronx.fusion" in done.stderr
    assert run_adaptive(source).stderr == ""


def test_a_bad_topic_in_the_environment_is_a_warning():
    done = run_adaptive("import torch", NEURON_LOG="everything")
    assert "no such topic: got 'everything'" in done.stderr


def test_a_forked_child_logs_too_and_ends():
    source = """
import os, sys, torch
pid = os.fork()
torch.ones(3, device="neuron").add(pid == 0).tolist()
torch.neuron.flush_log()
if pid:
    sys.exit(os.waitpid(pid, 0)[1])
"""
    done = run_adaptive(source, NEURON_LOG="windows")
    assert done.stderr.count("by value-read") == 2


def test_threads_that_log_while_others_record_do_no_harm():
    source = """
import threading, torch
torch.neuron.set_log("all")
import logging; logging.getLogger("torch_neuronx").setLevel(logging.DEBUG)
def work():
    x = torch.ones(4096, device="neuron")
    for i in range(30):
        x = (x * 0.5 + 1).exp().clamp(max=2)
        if i % 7 == 0: x.sum().item()
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
torch.neuron.set_log("windows")
x = torch.ones(4, device="neuron") + 1
"""
    done = run_adaptive(source)
    assert "[torch_neuronx.windows]" in done.stderr
    assert "Traceback" not in done.stderr
