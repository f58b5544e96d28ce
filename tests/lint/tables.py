"""What the tables own: the environment, and the names that the documents use."""

import re
from collections.abc import Iterable

from tree import File

READER = "src/base/knobs.cpp"
KNOBS = "src/base/knobs.def"
ENVIRONMENT = re.compile(r"\b(secure_)?(getenv|setenv|putenv)\b|\benviron\b")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
VARIABLE = re.compile(r"`((?:TORCH_)?NEURON(?:X)?_[A-Z0-9_]+)(?:=[^`]*)?`")
FUNCTION = re.compile(r"\b(?:torch\.neuron|torch_neuronx)\.([a-z_]\w*)\(")


def environment_readers(files: Iterable[File]) -> list[str]:
    """Returns the lines that touch the environment outside the one reader."""
    return [
        f"{file.path}:{number}: only {READER} reads the environment"
        for file in files
        if file.is_in("src", "python") and file.path != READER
        for number, line in enumerate(file.lines, 1)
        if ENVIRONMENT.search(line.split("//")[0])
    ]


def unknown_variables(files: Iterable[File]) -> list[str]:
    """Returns the variables that a document names and `knobs.def` does not."""
    files = list(files)
    knobs = "\n".join(file.text for file in files if file.path == KNOBS)
    return [
        f"{file.path}: {name} has no row in {KNOBS}"
        for file in files
        if file.path in DOCUMENTS
        for name in sorted(set(VARIABLE.findall(file.text)))
        if not is_macro(name) and not re.search(rf"\b{name}\b", knobs)
    ]


def is_macro(name: str) -> bool:
    return name.startswith(("NEURON_CHECK", "NEURON_DCHECK")) or name == "NEURON_NAME"


def unknown_functions(files: Iterable[File]) -> list[str]:
    """Returns the functions that the README calls and the package does not have."""
    files = list(files)
    package = "\n".join(file.text for file in files if file.is_in("python/torch_neuronx"))
    return [
        f"{file.path}: {name} is not in python/torch_neuronx"
        for file in files
        if file.path in DOCUMENTS
        for name in sorted(set(FUNCTION.findall(file.text)))
        if not re.search(rf"\b{name}\b", package)
    ]
