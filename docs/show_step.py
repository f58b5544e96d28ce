"""Prints what one training step of examples/char_lm.py becomes on the device.

python docs/show_step.py                        windows and kernels in short
python docs/show_step.py --window 3             ops and plan of that window in full
python docs/show_step.py --kernel gelu code     the first kernel with this op: its code,
python docs/show_step.py --kernel gelu llvm_ir  or llvm_ir, or assembly
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import char_lm  # noqa: E402

WARM_UP = 3


def capture_step() -> list[torch.neuron.CapturedWindow]:
    """The windows of one step, after the first ones."""
    torch.manual_seed(0)
    torch.neuron.set_adaptive_eager(True)
    generator = torch.Generator().manual_seed(0)
    text, alphabet = char_lm.load_text()
    model = char_lm.CharModel(len(alphabet)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=char_lm.LEARNING_RATE)

    def step() -> None:
        x, y = char_lm.pick_batch(text, generator)
        char_lm.train_step(model, optimizer, x.to("neuron"), y.to("neuron")).item()

    for _ in range(WARM_UP):
        step()
    with torch.neuron.capture_windows() as windows:
        step()
    return windows


def show_windows(windows: list[torch.neuron.CapturedWindow]) -> None:
    for i, window in enumerate(windows):
        ops = len(window.lines)
        fused = sum(kernel.is_fused for kernel in window.kernels)
        print(
            f"window {i}: {ops} ops are {len(window.kernels)} kernels, {fused} of "
            f"pointwise code; ended by {window.reason} at {short(window.line)}"
        )
    kinds = Counter(kernel.ops for window in windows for kernel in window.kernels)
    print("the most frequent kernels:")
    for ops, count in kinds.most_common(8):
        print(f"{count:6}  {ops if len(ops) < 90 else ops[:86] + ' ...'}")


def short(text: str) -> str:
    """Without the folder that the project happens to be in."""
    return text.replace(f"{ROOT}/", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--window", type=int)
    parser.add_argument("--kernel", nargs=2, metavar=("OP", "PART"))
    options = parser.parse_args()
    windows = capture_step()
    if options.kernel:
        op, part = options.kernel
        kernels = (kernel for window in windows for kernel in window.kernels)
        kernel = next(k for k in kernels if k.is_fused and op in k.ops)
        print(f"# {kernel.ops}, {kernel.numel} elements")
        print(getattr(kernel, part))
    elif options.window is not None:
        print(short(str(windows[options.window])))
    else:
        show_windows(windows)


if __name__ == "__main__":
    main()
