"""Random programs over tensors, as Python source, the same ones for the same seed.

A program is a list of statements about `v0`, `v1`, ... that runs on any device `dev`. It
is grown by running each new statement on CPU: statements that raise or whose values grow
out of bounds are dropped, so that the grammar can be broad and simple. After each
statement that makes or changes a tensor the program calls `look(tensor)`, which a runner
may use to print it.

Which values may be compared with CPU is tracked, too. A value is *chaotic* if it
depends on a random draw (devices have streams of their own) or on a decision that a
last-place difference may turn (a comparison, a rounding, a position). Writing a chaotic
value through a view makes all aliases chaotic.

As a script it prints one digest of the results for each seed it is given:

    python random_program.py neuron 0 1 2
"""

import dataclasses
import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from program_grammar import (
    BINARY,
    CASTS,
    DISCRETE,
    DRAWS,
    FLOAT_WEIGHTS,
    FLOATS,
    IN_PLACE,
    INTS,
    LOSSES,
    MAKERS,
    MATMULS,
    MOVES,
    OF_INTS,
    OF_MASKS,
    REDUCTIONS,
    SHAPES,
    UNARY,
    VIEWS,
    WITH_OUT,
)

#: Larger results are not kept: errors in them would grow beyond any tolerance.
LARGEST_VALUE = 1e3
LARGEST_NUMEL = 6000


@dataclasses.dataclass
class Program:
    """Statements in order, and the names that may be compared with CPU at the end."""

    seed: int
    statements: list[str]
    comparable: set[str]

    def source(self) -> str:
        """The whole program as Python, to be read and run by hand."""
        head = (
            f"import torch\ndev = 'neuron'\nlook = id\ntorch.manual_seed({self.seed})\n"
        )
        return head + "\n".join(self.statements) + "\n"

    def without(self, index: int) -> "Program":
        """The program with one statement left out."""
        kept = self.statements[:index] + self.statements[index + 1 :]
        return Program(self.seed, kept, self.comparable)

    def run(
        self, device: str, look: Callable[[Any], Any] = id
    ) -> dict[str, torch.Tensor]:
        """Runs the program; the final values on CPU by name."""
        names: dict[str, Any] = {"torch": torch, "dev": device, "look": look}
        torch.manual_seed(self.seed)
        exec(compile("\n".join(self.statements), f"<program {self.seed}>", "exec"), names)
        values = {k: t for k, t in names.items() if isinstance(t, torch.Tensor)}
        return {name: t.detach().to("cpu") for name, t in values.items()}


class Writer:
    """Grows one program by running each statement on CPU."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names: dict[str, Any] = {"torch": torch, "dev": "cpu", "look": id}
        self._chaotic: set[str] = set()
        self._count = 0
        self._program = Program(seed, [], set())
        torch.manual_seed(seed)

    def write(self, length: int) -> Program:
        """A program of about `length` statements."""
        for _ in range(4):
            self._new_value()
        kinds = [
            (self._assign, 60),
            (self._change, 22),
            (self._with_out, 4),
            (self._gradient, 5),
            (self._branch, 4),
            (self._read, 3),
            (self._forget, 4),
        ]
        actions, weights = zip(*kinds, strict=True)
        tries = 0
        while len(self._program.statements) < length and tries < 10 * length:
            tries += 1
            self._random.choices(actions, weights)[0]()
        self._program.comparable = {
            name for name in self._tensors() if name not in self._chaotic
        }
        return self._program

    # ---- picking operands ----------------------------------------------------------

    def _tensors(self, kind: str | None = None) -> list[str]:
        def fits(tensor: torch.Tensor) -> bool:
            if kind is None:
                return True
            if kind == "float":
                return tensor.dtype.is_floating_point
            if kind == "mask":
                return tensor.dtype == torch.bool
            return tensor.dtype in INTS

        return [
            name
            for name, value in self._names.items()
            if isinstance(value, torch.Tensor) and fits(value)
        ]

    def _pick(self, kind: str, like: str | None = None) -> str | None:
        names = self._tensors(kind)
        if like is not None:
            shape = self._names[like].shape
            same = [n for n in names if self._names[n].shape == shape]
            if same and self._random.random() < 0.8:
                names = same
        if not names:
            return None
        # Later values more often: dependences grow deep.
        return names[-1 - int(len(names) * self._random.random() ** 1.7)]

    def _fill(self, template: str) -> tuple[str, set[str]] | None:
        """The template with operands; the names it reads."""
        chosen: dict[str, Any] = {}
        read: set[str] = set()
        for hole, kind, like in (
            ("a", "float", None),
            ("b", "float", "a"),
            ("i", "int", None),
            ("j", "int", "i"),
            ("m", "mask", "a"),
            ("n", "mask", "m"),
        ):
            if "{" + hole + "}" in template:
                name = self._pick(kind, chosen.get(like))
                if name is None:
                    return None
                chosen[hole] = name
                read.add(name)
        rank = self._names[chosen["a"]].dim() if "a" in chosen else 1
        chosen["d"] = self._random.randrange(rank) if rank else 0
        chosen["s"] = self._random.choice(SHAPES)
        chosen["v"] = f"v{self._count}"
        return template.format(**chosen), read

    # ---- keeping statements --------------------------------------------------------

    def _aliases(self, name: str) -> list[str]:
        pointer = self._names[name].untyped_storage().data_ptr()
        if not pointer:
            return [name]
        return [
            other
            for other in self._tensors()
            if self._names[other].untyped_storage().data_ptr() == pointer
        ]

    def _sound(self, name: str) -> bool:
        tensor = self._names[name].detach()
        if tensor.numel() > LARGEST_NUMEL or tensor.dim() > 5 or tensor.is_complex():
            return False
        if not tensor.dtype.is_floating_point or not tensor.numel():
            return True
        largest = tensor.double().abs().max()
        return bool(torch.isfinite(largest)) and float(largest) <= LARGEST_VALUE

    def _try(self, statement: str, makes: str | None, chaotic: bool) -> bool:
        """Runs a statement that makes a new value and keeps it if it is sound."""
        try:
            exec(statement, self._names)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            self._names.pop(makes, None)
            self._names.pop(f"w{makes}", None)
            return False
        if not self._sound(makes):
            del self._names[makes]
            return False
        if chaotic:
            self._chaotic.update(self._aliases(makes))
        elif any(other in self._chaotic for other in self._aliases(makes)):
            self._chaotic.add(makes)
        self._program.statements.append(f"{statement}\nlook({makes})")
        self._count += 1
        return True

    def _taints(self, read: set[str]) -> bool:
        return bool(read & self._chaotic)

    # ---- kinds of statement --------------------------------------------------------

    def _new_value(self) -> None:
        shape = self._random.choice([s for s in SHAPES if s])
        dtype = self._random.choices(FLOATS, FLOAT_WEIGHTS)[0]
        numel = torch.Size(shape).numel()
        name = f"v{self._count}"
        self._try(
            f"{name} = (torch.arange({numel}, device=dev) * {self._random.randint(3, 97)}"
            f" % 41 / 13 - 1.5).reshape({shape}).to({dtype})",
            name,
            chaotic=False,
        )

    def _assign(self) -> None:
        kinds = [
            (UNARY, 12, False),
            (BINARY, 12, False),
            (REDUCTIONS, 8, False),
            (MATMULS, 4, False),
            (VIEWS, 10, False),
            (MOVES, 8, False),
            (CASTS, 4, False),
            (OF_INTS, 6, False),
            (OF_MASKS, 3, False),
            (MAKERS, 4, False),
            (DISCRETE, 6, True),
            (DRAWS, 4, True),
        ]
        templates, _, chaotic = self._random.choices(kinds, [k[1] for k in kinds])[0]
        filled = self._fill(self._random.choice(templates))
        if filled is None:
            return
        text, read = filled
        name = f"v{self._count}"
        self._try(f"{name} = {text}", name, chaotic or self._taints(read))

    def _change(self) -> None:
        """An in-place write, often through a view."""
        filled = self._fill(self._random.choice(IN_PLACE))
        if filled is None:
            return
        text, read = filled
        targets = sorted(read)
        try:
            exec(text, self._names)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return
        self._program.statements.append(f"{text}\nlook({targets[0]})")
        tainted = self._taints(read)
        for target in targets:
            if not self._sound(target):
                fix = f"{target}.clamp_(-1, 1)"
                exec(fix, self._names)
                self._program.statements.append(fix)
            if tainted:
                self._chaotic.update(self._aliases(target))

    def _with_out(self) -> None:
        filled = self._fill(self._random.choice(WITH_OUT))
        if filled is None:
            return
        text, read = filled
        name, first = f"v{self._count}", sorted(read)[0]
        make = f"{name} = torch.empty(0, dtype={self._names[first].dtype}, device=dev)"
        self._try(f"{make}\n{text}", name, self._taints(read))

    def _gradient(self) -> None:
        source, other = self._pick("float"), self._pick("float")
        if source is None or self._names[source].dtype not in FLOATS[:3]:
            return
        name = f"v{self._count}"
        loss = self._random.choice(LOSSES).format(w=f"w{name}", b=other)
        if "cat" in loss and self._names[source].shape != self._names[other].shape:
            return
        self._try(
            f"w{name} = {source}.detach().clone().requires_grad_()\n"
            f"({loss}).backward()\n"
            f"{name} = w{name}.grad\n"
            f"del w{name}",
            name,
            self._taints({source, other}),
        )

    def _branch(self) -> None:
        """Python looks at a value; only at exact ones, so that devices agree."""
        masks = [
            n
            for n in self._tensors("mask") + self._tensors("int")
            if n not in self._chaotic
        ]
        source = self._pick("float")
        if not masks or source is None:
            return
        name = f"v{self._count}"
        mask = self._random.choice(masks)
        self._try(
            f"if {mask}.any():\n    {name} = {source} * 0.5\n"
            f"else:\n    {name} = {source} - 1",
            name,
            self._taints({source}),
        )

    def _read(self) -> None:
        source = self._pick("float")
        if source is None:
            return
        name = f"v{self._count}"
        self._try(
            f"{name} = {source} * min(1.0, abs({source}.float().sum().item()))",
            name,
            self._taints({source}),
        )

    def _forget(self) -> None:
        names = self._tensors()
        if len(names) > 8:
            name = self._random.choice(names)
            del self._names[name]
            self._chaotic.discard(name)
            self._program.statements.append(f"del {name}")


def write_program(seed: int, length: int = 40) -> Program:
    """The program of a seed."""
    return Writer(seed).write(length)


def digest(values: dict[str, torch.Tensor]) -> str:
    """A digest of all bits, element types and shapes."""
    found = hashlib.sha256()
    for name in sorted(values):
        tensor = values[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        copy = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
        found.update(copy.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    for _seed in sys.argv[2:]:
        print(_seed, digest(write_program(int(_seed)).run(sys.argv[1])), flush=True)
