"""The include table of STYLE.md, checked line by line."""

import re
from collections.abc import Iterable

from tree import CPP, File

# Folder -> what its files may include besides the folder itself.
ALLOWED = {
    "base": (),
    "ir": ("base/",),
    "device": ("base/",),
    "fusion": ("base/", "ir/", "device/target.h"),
    "cache": ("base/", "ir/", "device/"),
    "lazy": ("base/", "ir/", "device/", "fusion/", "cache/"),
    "lazy/torch": ("base/", "ir/", "device/", "fusion/", "cache/", "lazy/"),
}
TORCH = re.compile(r"(torch|ATen|c10|caffe2|torchgen|pybind11)/|Python\.h$")
# One of these costs more to compile than all narrow headers together.
WIDE = re.compile(r"torch/(extension|all|torch|script)\.h$")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer(path: str) -> str | None:
    """The row of the table that `path` (a source or its test) falls under."""
    for prefix in ("src/", "tests/"):
        if path.startswith(prefix):
            inner = path.removeprefix(prefix)
            for folder in sorted(ALLOWED, key=len, reverse=True):
                if inner.startswith(folder + "/"):
                    return folder
    return None


def is_torch_edge(path: str) -> bool:
    inner = path.removeprefix("src/").removeprefix("tests/")
    return inner.startswith(("lazy/torch/", "python/bindings/", "benchmarks/"))


def is_allowed(folder: str, target: str) -> bool:
    if folder == "lazy" and target.startswith("lazy/torch/"):
        return False
    return target.startswith((folder + "/", *ALLOWED[folder]))


def check(files: Iterable[File]) -> list[str]:
    """Returns one complaint per include that the table forbids."""
    found = []
    for file in files:
        if not file.has_suffix(*CPP, ".def", ".inc"):
            continue
        folder = layer(file.path)
        for number, line in enumerate(file.lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            where = f"{file.path}:{number}"
            if TORCH.match(target) and not is_torch_edge(file.path):
                found.append(f"{where}: torch header {target} outside the torch edge")
            if WIDE.match(target):
                found.append(f"{where}: wide header {target}; include the narrow one")
            if quote == "<":
                continue
            if "/" not in target or target.startswith("."):
                found.append(f"{where}: {target} is not a full path from src")
            elif folder and target.split("/")[0] in ALLOWED:
                if not is_allowed(folder, target):
                    found.append(f"{where}: {folder} may not include {target}")
    return found
