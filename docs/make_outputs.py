"""Puts the real output of commands into the pages that show it.

python docs/make_outputs.py docs/engine.md docs/explain.md

In a page, a comment names the command, from the project's folder, and perhaps which lines
(from the first that contains one text, up to the first after it that contains another):

    <!-- output: docs/show_step.py --window 0 | from: kernel 3 | to: kernel 4 -->

The fenced block behind it is replaced. The folder of the project is left out, and lines
are cut at the width of the page.
"""

import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 140
BLOCK = re.compile(
    r"(?P<head><!-- output: (?P<command>[^|]*?)(?: \| from: (?P<first>.*?))?"
    r"(?: \| to: (?P<last>.*?))? -->\n```\w*\n).*?(?P<tail>^```$)",
    re.DOTALL | re.MULTILINE,
)


@functools.cache
def output_of(command: str) -> list[str]:
    """The lines that the script prints."""
    with tempfile.TemporaryDirectory() as kernels:  # nothing is on disk yet
        done = subprocess.run(
            [sys.executable, *shlex.split(command)],
            cwd=ROOT,
            env={**os.environ, "TORCH_NEURONX_NEFF_CACHE_DIR": kernels},
            capture_output=True,
            text=True,
            check=True,
        )
    text = (done.stdout + done.stderr).replace(f"{ROOT}/", "")
    return [
        line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..."
        for line in text.rstrip().splitlines()
    ]


def part(lines: list[str], first: str | None, last: str | None) -> list[str]:
    """Lines from the first with `first` up to, and without, the next with `last`."""
    start = next(i for i, line in enumerate(lines) if first is None or first in line)
    for i in range(start + 1, len(lines)):
        if last is not None and last in lines[i]:
            return lines[start:i]
    return lines[start:]


def fill(match: re.Match[str]) -> str:
    lines = part(output_of(match["command"]), match["first"], match["last"])
    while lines and not lines[-1].strip():
        lines.pop()
    return match["head"] + "\n".join(lines) + "\n" + match["tail"]


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(BLOCK.sub(fill, page.read_text()))


if __name__ == "__main__":
    main()
