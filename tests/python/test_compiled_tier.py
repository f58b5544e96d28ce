"""The compiled tier: it changes no bit, compiles little, and remembers on disk."""

import json
import os
import signal
import subprocess
import sys

import pytest

import device_under_test
from device_under_test import run_script

pytestmark = pytest.mark.skipif(
    device_under_test.ON_CPU, reason="for ever: there is one tier on the CPU"
)

#: Compiling a kernel takes milliseconds; only a hang takes this long.
HANG_S = 120

PREPARE = """
import json, os, time, torch
d = os.environ["DUT"]
report = torch.neuron.compile_report

def settle():
    torch.neuron.synchronize()
    while report()["waiting"]:
        time.sleep(0.001)

def chain(x, b):
    for _ in range(4):
        x = torch.tanh(x * 0.75 + b) - x.exp() * 0.125
    return x

def digest(t):
    return t.detach().cpu().contiguous().flatten().view(torch.uint8).to(torch.int64).mul(
        torch.arange(1, t.numel() * t.element_size() + 1) % 65521).sum().item()
"""

# Every way in which a kernel walks through memory, in four dtypes, over and over.
SAME_BITS = """
torch.manual_seed(0)
results = []
for round in range(8):
    row = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        torch.manual_seed(1)
        x = torch.randn(61, 83, dtype=dtype).to(d)
        b = torch.randn(83, dtype=dtype).to(d)
        for a in (x, x.t().contiguous().t(), x[:, ::2].repeat(1, 2)[:, :83], x[5:]):
            row.append(digest(chain(a, b)))
    i = torch.arange(5000, device=d)
    row.append(digest(((i * 7 - 3) & 1023) ^ (i + 5)))
    row.append(digest(torch.where((i > 9) & (i < 4000), i * 2, -i)))
    results.append(row)
    if round == 4:
        settle()
print(json.dumps([results[0], results[-1], all(r == results[0] for r in results),
                  report()]))
"""

# All windows end by a read, so the same temporaries are dead in every process. Where the
# size cap ends a window, it is a race which of them are stored, and with it which kernels
# there are.
READS_ONLY = """
torch.manual_seed(0)
results = []
for round in range(6):
    row = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        torch.manual_seed(1)
        x = torch.randn(61, 83, dtype=dtype).to(d)
        b = torch.randn(83, dtype=dtype).to(d)
        torch.neuron.synchronize()
        y = torch.tanh(x * 0.75 + b) - x.exp() * 0.125
        row.append(digest(y))
        y = torch.sigmoid(x.t() - 0.5) * x.t()
        row.append(digest(y))
    results.append(row)
    settle()
print(json.dumps([results[0], results[-1], all(r == results[0] for r in results),
                  report()]))
"""

CHANGING_BATCH = """
torch.manual_seed(0)
w = torch.randn(64, 64, device=d)
def step(batch, rate):
    x = torch.randn(batch, 64, device=d)
    return ((chain(x, w[0]) * rate) ** 2).sum().item()
for i in range(40):
    step(200 - i, 0.5)
settle()
before = report()
for i in range(40):  # other sizes, none large enough to make a kernel worth more
    step(64 + i, 0.5 / (i + 1))
settle()
print(json.dumps([before, report()]))
"""


def run(body: str, **env: str):
    env = {"NEURON_ADAPTIVE_EAGER": "1", "NEURON_COMPILE_AFTER": "1", **env}
    done = run_script(PREPARE + body, env=env, timeout=HANG_S)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def test_bits_are_the_same_before_and_after_the_swap_and_without():
    off = {"TORCH_NEURONX_NEFF_DISABLE_CACHE": "1"}
    first, last, is_same, report = run(SAME_BITS, **off)
    assert report["compiles"] > 0
    assert report["failures"] == 0
    assert is_same
    baseline, _, _, report = run(SAME_BITS, NEURON_COMPILE="0", **off)
    assert report["compiles"] == 0
    assert first == last == baseline


def test_another_batch_size_or_rate_compiles_nothing():
    before, after = run(CHANGING_BATCH, TORCH_NEURONX_NEFF_DISABLE_CACHE="1")
    assert before["compiles"] > 0
    assert after["compiles"] == before["compiles"]
    assert after["kernel_hits"] > before["kernel_hits"]


def test_a_second_process_finds_its_kernels_on_disk(tmp_path):
    env = {"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path / "kernels")}
    first, _, _, cold = run(READS_ONLY, **env)
    assert cold["compiles"] > 0
    assert cold["disk_hits"] == 0
    again, _, is_same, warm = run(READS_ONLY, **env)
    assert warm["compiles"] == 0
    assert warm["disk_hits"] > 0
    assert is_same and again == first


def test_a_damaged_cache_is_compiled_anew(tmp_path):
    env = {"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path / "kernels")}
    first, _, _, _ = run(READS_ONLY, **env)
    for file in (tmp_path / "kernels").iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    again, _, is_same, report = run(READS_ONLY, **env)
    assert report["compiles"] > 0
    assert report["disk_hits"] == 0
    assert is_same and again == first


@pytest.mark.parametrize(
    "name", ["TORCH_NEURONX_NEFF_DISABLE_CACHE", "TORCH_NEURONX_DISABLE_NEFF_CACHE"]
)
def test_the_cache_on_disk_can_be_switched_off(name: str, tmp_path):
    folder = tmp_path / "kernels"
    run(CHANGING_BATCH, TORCH_NEURONX_NEFF_CACHE_DIR=str(folder), **{name: "1"})
    assert not folder.exists()


EXITS_WHILE_COMPILING = """
x = torch.randn(1 << 16, device=d)
for n in range(2, 40):
    for _ in range(3):
        y = x
        for _ in range(n):
            y = torch.tanh(y) * 0.5 + x
        y.sum().item()
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)\n", "os._exit(0)\n"])
def test_exit_while_kernels_are_compiled_is_clean(end: str, tmp_path):
    done = run_script(
        PREPARE + EXITS_WHILE_COMPILING + end,
        env={
            "NEURON_ADAPTIVE_EAGER": "1",
            "NEURON_COMPILE_AFTER": "1",
            "TORCH_NEURONX_NEFF_DISABLE_CACHE": "1",
        },
        timeout=HANG_S,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


def test_a_child_forked_while_kernels_are_compiled_ends():
    body = EXITS_WHILE_COMPILING + (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    torch.ones(3).sum()\n"
        "    raise SystemExit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert run(body, TORCH_NEURONX_NEFF_DISABLE_CACHE="1") == 7


def test_a_kill_leaves_a_cache_that_works(tmp_path):
    env = {
        **os.environ,
        "DUT": device_under_test.DUT,
        "NEURON_ADAPTIVE_EAGER": "1",
        "NEURON_COMPILE_AFTER": "1",
        "TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path / "kernels"),
    }
    body = PREPARE + EXITS_WHILE_COMPILING + "print('running', flush=True)\nsettle()\n"
    with subprocess.Popen(
        [sys.executable, "-c", body], env=env, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    first, _, is_same, report = run(
        SAME_BITS, TORCH_NEURONX_NEFF_CACHE_DIR=str(tmp_path / "kernels")
    )
    assert is_same
    assert report["failures"] == 0


def test_without_a_code_generator_there_is_one_warning_and_the_same_bits(tmp_path):
    """The module is looked up beside the extension: a copy elsewhere has none."""
    package = tmp_path / "torch_neuronx"
    package.mkdir()
    import torch_neuronx

    for path in torch_neuronx.__path__:
        for name in os.listdir(path):
            source = os.path.realpath(os.path.join(path, name))
            if name.startswith("_C.") and name.endswith(".so"):
                (package / name).write_bytes(open(source, "rb").read())
            elif not name.startswith(("_codegen", "__pycache__")):
                (package / name).symlink_to(source)
    body = (
        "import sys; sys.path.insert(0, os.environ['COPY']); import torch_neuronx\n"
        "assert torch_neuronx.__file__.startswith(os.environ['COPY'])\n"
    )
    done = run_script(
        "import os\n" + body + PREPARE + SAME_BITS,
        env={
            "NEURON_ADAPTIVE_EAGER": "1",
            "NEURON_COMPILE_AFTER": "1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "COPY": str(tmp_path),
        },
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("kernels are not compiled") == 1
    _, _, is_same, report = json.loads(done.stdout.splitlines()[-1])
    assert is_same
    assert report["compiles"] == 0
