"""Words that must not be in the project, and file names that say nothing."""

import re
from collections.abc import Iterable

from tree import File

FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~}])/(work|root|home|opt)/\w",
    "a host of a package registry": r"\b(pypi\.org|pythonhosted\.org|debian\.org"
    r"|download\.pytorch\.org|registry\.npmjs\.org|apt\.llvm\.org)\b",
    "a TODO without an issue": r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))",
}
EMPTY_NAMES = {"utils", "util", "common", "misc", "manager", "helpers"}
# The rules spell what they forbid; so does the licence, and the page of rules.
EXEMPT = ("tests/lint/", "LICENSE", "STYLE.md")


def check(files: Iterable[File]) -> list[str]:
    """Returns one complaint per forbidden word."""
    return [
        f"{file.path}:{number}: {what}: {match[0]}"
        for file in files
        if not file.path.startswith(EXEMPT)
        for number, line in enumerate(file.lines, 1)
        for what, pattern in FORBIDDEN.items()
        if (match := re.search(pattern, line))
    ]


def empty_names(files: Iterable[File]) -> list[str]:
    """Returns the source files whose name does not say what is inside."""
    return [
        f"{file.path}: name it after its main type or pass"
        for file in files
        if file.is_in("src", "python") and file.name.split(".")[0] in EMPTY_NAMES
    ]
