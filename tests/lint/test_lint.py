"""The project against its own rules, and each rule against a file that breaks it."""

import subprocess
import sys
import warnings

import pytest

import layers
import sizes
import tables
import words
from tree import ROOT, File, project_files

FILES = list(project_files())


def report(complaints: list[str]) -> None:
    assert not complaints, "\n" + "\n".join(complaints)


def test_includes_follow_the_table():
    report(layers.check(FILES))


def test_no_file_is_over_the_limit():
    for line in sizes.long_files(FILES, sizes.FILE_AIM):
        warnings.warn(line, stacklevel=1)
    report(sizes.long_files(FILES, sizes.FILE_STOP))


def test_no_function_is_over_the_limit():
    report(sizes.long_functions(FILES))


def test_no_line_is_too_wide():
    report(sizes.wide_lines(FILES))


def test_headers_open_with_their_purpose():
    report(sizes.bare_headers(FILES))


def test_one_file_reads_the_environment():
    report(tables.environment_readers(FILES))


def test_documents_name_only_knobs_that_exist():
    report(tables.unknown_variables(FILES))


def test_documents_call_only_functions_that_exist():
    report(tables.unknown_functions(FILES))


def test_no_forbidden_word():
    report(words.check(FILES))


def test_file_names_say_something():
    report(words.empty_names(FILES))


def test_ruff_is_content():
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--quiet"]
    done = subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, "\n" + done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/hash.h", '"ir/op.h"'),
        ("src/ir/graph.h", '"device/device.h"'),
        ("src/device/queue.h", '"ir/op.h"'),
        ("src/fusion/pipeline.h", '"device/queue.h"'),
        ("src/fusion/pipeline.h", '"cache/key.h"'),
        ("src/cache/key.h", '"fusion/cost.h"'),
        ("src/lazy/flush.cpp", '"lazy/torch/dispatch.h"'),
        ("src/lazy/flush.cpp", "<ATen/core/Tensor.h>"),
        ("tests/ir/op_test.cpp", "<c10/core/Device.h>"),
        ("src/lazy/torch/dispatch.cpp", "<torch/extension.h>"),
        ("src/ir/op.cpp", '"op.h"'),
        ("src/ir/op.cpp", '"../base/hash.h"'),
    ],
)
def test_a_forbidden_include_is_found(path, include):
    assert layers.check([File(path, f"#include {include}\n")])


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/fusion/pipeline.h", '"device/target.h"'),
        ("src/cache/key.h", '"device/executable.h"'),
        ("src/lazy/flush.cpp", '"fusion/pipeline.h"'),
        ("src/lazy/torch/dispatch.cpp", '"lazy/recorder.h"'),
        ("src/lazy/torch/dispatch.cpp", "<ATen/core/Tensor.h>"),
        ("python/bindings/module.cpp", '"lazy/torch/hooks.h"'),
    ],
)
def test_an_allowed_include_passes(path, include):
    assert layers.check([File(path, f"#include {include}\n")]) == []


def test_a_long_function_is_found():
    body = "  step();\n" * 120
    assert sizes.long_functions([File("src/ir/op.cpp", f"void run() {{\n{body}}}\n")])
    body = "    step()\n" * 120
    assert sizes.long_functions([File("python/x.py", f"def run():\n{body}")])


def test_a_wide_line_is_found():
    assert sizes.wide_lines([File("src/ir/op.cpp", "x" * 91)])
    assert sizes.wide_lines([File("src/ir/op.cpp", "x" * 90)]) == []


def test_a_bare_header_is_found():
    assert len(sizes.bare_headers([File("src/ir/op.h", "int x;\n")])) == 2
    assert sizes.bare_headers([File("src/ir/op.h", "// Ops.\n#pragma once\n")]) == []


def test_a_second_reader_of_the_environment_is_found():
    assert tables.environment_readers([File("src/ir/op.cpp", 'std::getenv("X");\n')])
    assert tables.environment_readers([File("python/a.py", 'os.environ["X"]\n')])
    assert tables.environment_readers([File(tables.READER, 'std::getenv("X");\n')]) == []


def test_a_knob_that_only_the_readme_knows_is_found():
    readme = File("README.md", "| `NEURON_NOWHERE=1` |\n")
    assert tables.unknown_variables([readme])
    assert tables.unknown_variables([readme, File(tables.KNOBS, "NEURON_NOWHERE")]) == []


@pytest.mark.parametrize("line", ["see /root/x", "TODO: later", "from pypi.org"])
def test_a_forbidden_word_is_found(line):
    assert words.check([File("README.md", line)])


def test_a_todo_with_an_issue_passes():
    assert words.check([File("src/ir/op.h", "// TODO(#12): more, when fused")]) == []
