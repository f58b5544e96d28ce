"""Writes a source file with a fingerprint of the sources of the code generator."""

import hashlib
import sys
from pathlib import Path


def main(output: str, sources: list[str]) -> None:
    """Hashes `sources` in order of their names."""
    digest = hashlib.sha256()
    for source in sorted(sources, key=lambda name: Path(name).name):
        digest.update(Path(source).read_bytes())
    Path(output).write_text(
        "namespace neuron::fusion {\n"
        "extern const char kCodegenFingerprint[];\n"
        f'const char kCodegenFingerprint[] = "{digest.hexdigest()[:32]}";\n'
        "}\n"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
