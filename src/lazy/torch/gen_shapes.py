"""Writes the shape functions of PyTorch's structured ops as C++.

Every structured group has a C++ class whose `meta` member infers shapes; the template in
shapes/structured.h runs it. What remains to be written per PyTorch version is the list of
classes and the operator names each serves, taken from the wheel's native_functions.yaml.

    gen_shapes.py --out-dir build/shapes --parts 8

writes structured_0.cpp ... structured_7.cpp and structured_table.cpp.
"""

import argparse
import importlib.util
from collections import defaultdict
from pathlib import Path

import yaml


def load_entries() -> list[dict]:
    """The entries of the installed wheel, found without importing torch or torchgen."""
    spec = importlib.util.find_spec("torchgen")
    if spec is None:
        raise SystemExit("gen_shapes.py: torchgen is not installed in this Python")
    folder = Path(spec.submodule_search_locations[0])
    path = folder / "packaged/ATen/native/native_functions.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(), Loader=loader)


def op_name(entry: dict) -> str:
    return entry["func"].split("(", 1)[0]


def structured_groups(entries: list[dict]) -> list[tuple[str, str, list[str]]]:
    """(header stem, class name, operator names) of every structured group."""
    members = defaultdict(list)
    for entry in entries:
        if "structured_delegate" in entry:
            members[entry["structured_delegate"]].append(op_name(entry))
    groups = []
    for entry in entries:
        if not entry.get("structured"):
            continue
        out = op_name(entry)
        # The class is named after the functional overload.
        functional = [m for m in members[out] if not m.split(".")[0].endswith("_")]
        if len(functional) != 1:
            text = f"{out} has functional overloads {functional}"
            raise SystemExit("gen_shapes.py: " + text)
        base = functional[0].split(".")[0]
        cls = "structured_" + functional[0].replace(".", "_")
        groups.append((base, cls, [out, *members[out]]))
    return groups


# Kernels that lay their result out like the input, though their meta asks for contiguous.
LIKE_INPUT = {
    "reflection_pad3d": 0,
    "reflection_pad3d_backward": 1,
    "replication_pad2d": 0,
    "replication_pad3d": 0,
}

HEADER = "// Written by gen_shapes.py; do not edit.\n"


def part_text(index: int, groups: list[tuple[str, str, list[str]]]) -> str:
    includes = sorted({f"#include <ATen/ops/{base}_meta.h>" for base, _, _ in groups})
    rows = []
    for base, cls, names in groups:
        function = f"structured_shape<at::meta::{cls}>"
        if base in LIKE_INPUT:
            function = f"structured_shape_like_input<at::meta::{cls}, {LIKE_INPUT[base]}>"
        rows += [f'    {{"aten::{name}", &{function}}},' for name in names]
    return "\n".join(
        [
            HEADER,
            '#include "lazy/torch/shapes/structured.h"',
            '#include "lazy/torch/shapes/table.h"',
            "",
            *includes,
            "",
            "namespace neuron::lazy::shapes {",
            "",
            f"Rows structured_rows_{index}() {{",
            "  static constexpr Row rows[] = {",
            *rows,
            "  };",
            "  return rows;",
            "}",
            "",
            "}  // namespace neuron::lazy::shapes",
            "",
        ]
    )


def table_text(parts: int) -> str:
    declarations = [f"Rows structured_rows_{i}();" for i in range(parts)]
    inserts = [
        f"    for (const Row& row : structured_rows_{i}()) all.push_back(row);"
        for i in range(parts)
    ]
    return "\n".join(
        [
            HEADER,
            '#include "lazy/torch/shapes/table.h"',
            "",
            "#include <vector>",
            "",
            "namespace neuron::lazy::shapes {",
            "",
            *declarations,
            "",
            "Rows structured_rows() {",
            "  static const std::vector<Row> rows = [] {",
            "    std::vector<Row> all;",
            *inserts,
            "    return all;",
            "  }();",
            "  return rows;",
            "}",
            "",
            "}  // namespace neuron::lazy::shapes",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out-dir", type=Path, required=True)
    parser.add_argument("--parts", type=int, default=8)
    args = parser.parse_args()

    args.out_dir.mkdir(parents=True, exist_ok=True)
    groups = structured_groups(load_entries())
    for i in range(args.parts):
        text = part_text(i, groups[i :: args.parts])
        (args.out_dir / f"structured_{i}.cpp").write_text(text)
    (args.out_dir / "structured_table.cpp").write_text(table_text(args.parts))


if __name__ == "__main__":
    main()
