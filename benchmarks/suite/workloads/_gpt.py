"""A small GPT with an optional growing cache, and greedy decoding."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).split(d, -1)
        q, k, v = (
            z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in (q, k, v)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)))), (k, v)


class GPT(nn.Module):
    def __init__(self, vocab, d, heads, layers, length):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, ids, cache=None, start=0, use_cache=False):
        x = self.tok(ids) + self.pos(
            torch.arange(start, start + ids.shape[1], device=ids.device)
        )
        kept = []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, None if cache is None else cache[i])
            kept.append(kv)
        logits = self.head(self.norm(x))
        return (logits, kept) if use_cache else logits


def decode(net, prompt, count, stop=None):
    """Greedy decoding. With `stop` every token is read, and that token ends the text."""
    ids, cache, start, tokens, score = prompt, None, 0, [], 0
    for _ in range(count):
        logits, cache = net(ids, cache, start, True)
        start += ids.shape[1]
        best, ids = logits[:, -1:].max(-1)
        score = score + best.mean()
        if stop is None:
            tokens.append(ids)
        else:
            token = ids.item()
            if token == stop:
                break
            tokens.append(token)
    return tokens, score
