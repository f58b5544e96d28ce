"""The root script `neuron`: its commands, and how it adds up what the runners print."""

import subprocess

import pytest

from tree import ROOT


def bash(script: str) -> subprocess.CompletedProcess[str]:
    """Runs `script` in a shell that has the functions of `neuron`."""
    return subprocess.run(
        ["bash", "-c", f"source ./neuron; {script}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("closing", "code", "passed", "failed"),
    [
        ("===== 12 passed, 2 skipped in 3.21s =====", 0, 12, 0),
        ("== 2 failed, 1 passed, 1 skipped, 1 xfailed in 5.33s ==", 1, 2, 2),
        ("== 3 passed, 1 error in 65.02s (0:01:05) ==", 1, 3, 1),
        ("\x1b[32m== \x1b[1m4 passed\x1b[0m\x1b[32m in 1.02s ==\x1b[0m", 0, 4, 0),
        ("7 passed in 0.10s", 0, 7, 0),
        ("== no tests ran in 0.01s ==", 5, 0, 0),
        ("== 5 deselected in 0.01s ==", 5, 0, 0),
        ("Segmentation fault", 139, 0, 1),
        ("== 4 passed in 1.00s ==", 3, 4, 1),
    ],
)
def test_pytest_is_counted(tmp_path, closing, code, passed, failed):
    log = tmp_path / "log"
    log.write_text(f"collected 3 items in 2.0s\n\n{closing}\n")
    done = bash(f"count_pytest {log} {code}; echo $passed $failed $is_green")
    is_green = int(code in (0, 5))
    assert done.stdout.split() == [str(passed), str(failed), str(is_green)], done.stderr


MESON_LOG = """\
==================================== 1/3 ===
test:         torch-neuronx:hash
result:       exit status 0
[  PASSED  ] 7 tests.
==================================== 2/3 ===
test:         torch-neuronx:graph
result:       exit status 1
[  PASSED  ] 3 tests.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Graph.A
[  FAILED  ] Graph.B
==================================== 3/3 ===
test:         torch-neuronx:queue
result:       killed by signal 11 SIGSEGV
"""


def test_meson_is_counted_by_gtest_case(tmp_path):
    log = tmp_path / "log"
    log.write_text(MESON_LOG)
    assert bash(f"count_meson {log}").stdout.split() == ["10", "3"]


@pytest.mark.parametrize("command", ["run", "test", "python", "bench", "build", "doctor"])
def test_help_lists_the_command(command):
    assert f"\n  {command}" in bash("main help").stdout


def test_an_unknown_command_is_refused():
    done = bash("main frobnicate")
    assert done.returncode == 2
    assert "no command 'frobnicate'" in done.stderr


def test_a_missing_script_is_named():
    done = bash("main run nowhere.py")
    assert done.returncode == 1
    assert "no script 'nowhere.py'" in done.stderr


def test_a_failed_build_shows_the_first_error(tmp_path):
    lines = "one\\nFAILED: a.o\\nc++ -o a.o\\na.cpp:1: error: no\\n"
    step = f"sh -c 'printf \"{lines}\"; exit 1'"
    done = bash(f"root={tmp_path} build={tmp_path}; logged step {step}")
    assert done.stderr.splitlines()[:2] == ["FAILED: a.o", "a.cpp:1: error: no"]


def test_a_failed_step_shows_the_end_of_its_log(tmp_path):
    done = bash(f"root={tmp_path} build={tmp_path}; logged step sh -c 'echo why; exit 3'")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "why",
        "[neuron] failed: a part of step.log is above",
    ]


def test_the_source_stamp_follows_an_edit(tmp_path):
    source = tmp_path / "src/ir/op.cpp"
    source.parent.mkdir(parents=True)
    stamps = set()
    for text in ("one", "three"):
        source.write_text(text)
        stamps.add(bash(f"root={tmp_path}; source_stamp").stdout)
    assert len(stamps) == 2
