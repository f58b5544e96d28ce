"""Writes docs/environment.md from the table of knobs in the extension.

python docs/make_environment.py            write it
python docs/make_environment.py --check    fail if it is not what would be written
"""

import argparse
import sys
from pathlib import Path

from torch_neuronx import _C

TARGET = Path(__file__).with_name("environment.md")
HEAD = """\
# Environment variables

<!-- Written by docs/make_environment.py from src/base/knobs.def: change it there. -->

All of them are read once, when the extension is loaded; a later change of `os.environ`
does nothing. A value that is not allowed is refused by name, with what is allowed. An
unknown variable of ours gets a warning with the nearest known name. `NEURON_RT_*`,
`NEURON_LAUNCH_BLOCKING` and `TORCH_NEURONX_*` are names of AWS's TorchNeuron, the
others are our own.

| Variable | Default | Meaning |
|---|---|---|
"""


def text() -> str:
    rows = []
    for _, variable, _, default, meaning in sorted(_C.knobs(), key=lambda row: row[1]):
        shown = f"`{default}`" if default else "not set"
        rows.append(
            f"| `{variable}` | {shown} | {meaning.replace('|', chr(92) + '|')} |\n"
        )
    return HEAD + "".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        TARGET.write_text(text())
    elif TARGET.read_text() != text():
        sys.exit(f"{TARGET} is out of date: run python docs/make_environment.py")


if __name__ == "__main__":
    main()
