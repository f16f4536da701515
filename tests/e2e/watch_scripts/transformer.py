"""A small transformer, as several of the scripts here train it."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(size, size, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, x.shape[-1] // self.heads)).transpose(1, 2) for part in (self.wq(x), self.wk(x), self.wv(x)))
        return self.wo(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.attention = Attention(size, heads)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.w1, self.w2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.w2(nn.functional.gelu(self.w1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, tokens=64, size=32, heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(tokens, size)
        self.layers = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, tokens)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def next_token_loss(logits, tokens):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def random_tokens(batch, length, generator, tokens=64):
    return torch.randint(0, tokens, (batch, length), generator=generator).cumsum(1) % tokens
