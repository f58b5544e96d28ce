"""The project's own files, as pairs of path from the root and text."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "benchmarks", "docs", "examples", "python", "src", "tests")
CPP = (".cpp", ".h")


class File(NamedTuple):
    """One text file; `path` is relative to the root, with forward slashes."""

    path: str
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def is_in(self, *folders: str) -> bool:
        return any(self.path.startswith(folder + "/") for folder in folders)

    def has_suffix(self, *suffixes: str) -> bool:
        return self.path.endswith(suffixes)


def project_files(root: Path = ROOT) -> Iterator[File]:
    """Yields every text file of the project; what tools leave is passed over."""
    top = [path for path in root.iterdir() if path.is_file()]
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    for path in sorted(top + below):
        relative = path.relative_to(root).as_posix()
        if not path.is_file() or "/." in relative or "__pycache__" in relative:
            continue
        try:
            yield File(relative, path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
