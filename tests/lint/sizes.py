"""Lengths of files, functions and lines, and how headers open."""

import ast
import re
from collections.abc import Iterable, Iterator

from tree import CPP, File

FILE_AIM, FILE_STOP = 400, 800
FUNCTION_STOP = 100
COLUMNS = 90
# A C++ function of the outermost level, as clang-format lays it out: its head starts in
# column 0 and ends in `{`; its end is a lone brace in column 0.
NOT_HEAD = "namespace|struct|class|enum|union|extern|template|using"
HEAD = re.compile(rf"(?!{NOT_HEAD})[A-Za-z].*(?<!= )\{{$")  # a table is not a function


def is_code(file: File) -> bool:
    return file.has_suffix(*CPP, ".py")


def long_files(files: Iterable[File], limit: int) -> list[str]:
    """Returns the code files with more than `limit` lines; tables may be longer."""
    return [
        f"{file.path}: {len(file.lines)} lines, limit {limit}"
        for file in files
        if is_code(file) and len(file.lines) > limit
    ]


def cpp_functions(file: File) -> Iterator[tuple[int, int]]:
    start = None
    for number, line in enumerate(file.lines, 1):
        if start is None and HEAD.match(line):
            start = number
        elif start is not None and line.startswith("}"):
            yield start, number
            start = None


def python_functions(file: File) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(file.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.end_lineno or node.lineno


def long_functions(files: Iterable[File], limit: int = FUNCTION_STOP) -> list[str]:
    """Returns the functions with more than `limit` lines."""
    found = []
    for file in files:
        if not is_code(file):
            continue
        functions = python_functions if file.has_suffix(".py") else cpp_functions
        found += [
            f"{file.path}:{first}: function of {last - first + 1} lines, limit {limit}"
            for first, last in functions(file)
            if last - first + 1 > limit
        ]
    return found


def wide_lines(files: Iterable[File], limit: int = COLUMNS) -> list[str]:
    """Returns the lines of C++ that are wider than `limit`; ruff looks at Python."""
    return [
        f"{file.path}:{number}: {len(line)} columns, limit {limit}"
        for file in files
        if file.has_suffix(*CPP)
        for number, line in enumerate(file.lines, 1)
        if len(line) > limit and "http" not in line
    ]


def bare_headers(files: Iterable[File]) -> list[str]:
    """Returns the headers that lack a purpose comment or `#pragma once`."""
    found = []
    for file in files:
        if not file.has_suffix(".h"):
            continue
        first = file.lines[0] if file.lines else ""
        if not re.match(r"//+ \w", first):
            found.append(f"{file.path}:1: the first line must say the header's purpose")
        if "#pragma once" not in file.lines:
            found.append(f"{file.path}: no #pragma once")
    return found
