"""ESM-2 with 650 million parameters and random weights, from its public description.

A pre-norm transformer encoder: 33 layers of width 1280 with 20 heads, rotary positions on
queries and keys, and a hidden layer of 5120 with the exact gelu written out.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 33, 1280, 20, 5120, 33
HEAD = WIDTH // HEADS


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the halves of each head against each other, by position."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def gelu(x: Tensor) -> Tensor:
    """The exact form, op by op."""
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


class Layer(nn.Module):
    """Attention and a feed-forward part, each behind a norm and beside the input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH) for _ in range(4)
        )
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def attention(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Softmax of scaled products of queries and keys, over all positions."""
        batch, length, _ = x.shape
        query, key, value = self.query(x), self.key(x), self.value(x)
        query, key, value = (
            t.view(batch, length, HEADS, HEAD).transpose(1, 2)
            for t in (query * HEAD**-0.5, key, value)
        )
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        weights = F.softmax(query @ key.transpose(-1, -2) + mask, dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(x.shape))

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """One layer."""
        x = x + self.attention(self.attention_norm(x), mask, cos, sin)
        return x + self.down(gelu(self.up(self.norm(x))))


class Esm2(nn.Module):
    """Tokens to the last hidden state."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        turn = 10000.0 ** -(torch.arange(0, HEAD, 2) / HEAD)
        angle = torch.outer(torch.arange(length) * 1.0, turn).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """`mask` is added to the scores."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, mask, self.cos, self.sin)
        return self.norm(x)
