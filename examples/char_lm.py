"""Trains a small GPT, char by char, on Python's own help texts, then lets it write.

python examples/char_lm.py                    on the accelerator, else on the CPU
python examples/char_lm.py --device cpu --steps 200
python examples/char_lm.py --losses a.txt     every loss, as hexadecimal floats
"""

import argparse
import time
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONTEXT = 64
BATCH = 16
WIDTH = 96
HEADS = 4
LAYERS = 4
LEARNING_RATE = 2e-3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharModel(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.char = nn.Embedding(vocabulary, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, chars: Tensor) -> Tensor:
        where = torch.arange(chars.shape[1], device=chars.device)
        x = self.char(chars) + self.position(where)
        return self.head(self.norm(self.blocks(x)))


def load_text() -> tuple[Tensor, str]:
    """The help texts as indices, and the alphabet they index."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    alphabet = "".join(sorted(set(text)))
    index = {char: i for i, char in enumerate(alphabet)}
    return torch.tensor([index[char] for char in text]), alphabet


def pick_batch(text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random pieces of the text, and the same shifted by one char."""
    starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=generator)
    pieces = text[starts + torch.arange(CONTEXT + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor
) -> Tensor:
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def write(model: nn.Module, start: Tensor, count: int, device: torch.device) -> Tensor:
    """Lets the model go on, one char at a time; chars are drawn on the host."""
    generator = torch.Generator().manual_seed(0)
    chars = start
    for _ in range(count):
        logits = model(chars[None, -CONTEXT:].to(device))[0, -1].cpu()
        char = torch.multinomial((logits / 0.7).softmax(0), 1, generator=generator)
        chars = torch.cat([chars, char])
    return chars


def default_device() -> torch.device:
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=default_device())
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--losses", type=Path, metavar="FILE")
    options = parser.parse_args()
    device = options.device

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    text, alphabet = load_text()
    model = CharModel(len(alphabet)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    size = sum(p.numel() for p in model.parameters())
    print(f"{size:,} parameters, {len(text):,} chars of text, device {device}")

    losses = []
    since, done = time.perf_counter(), 0
    for step in range(1, options.steps + 1):
        x, y = pick_batch(text, generator)
        loss = train_step(model, optimizer, x.to(device), y.to(device))
        if options.losses:
            losses.append(loss)
        if step % 100 == 0 or step in (1, options.steps):
            value, now = loss.item(), time.perf_counter()
            speed = (step - done) * BATCH * CONTEXT / (now - since)
            print(f"step {step:5}  loss {value:.4f}  {speed:9,.0f} tokens/s", flush=True)
            since, done = now, step

    if options.losses:
        lines = (value.hex() + "\n" for value in torch.stack(losses).tolist())
        options.losses.write_text("".join(lines))
    start = text[:CONTEXT]
    sample = write(model, start, 300, device)
    print("--- sample\n" + "".join(alphabet[i] for i in sample.tolist()))
    backend = getattr(torch, device.type, None)
    if hasattr(backend, "window_report"):
        print(f"--- report\n{backend.window_report()}")


if __name__ == "__main__":
    main()
