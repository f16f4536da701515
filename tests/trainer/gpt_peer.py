"""The model gpt in plain PyTorch, as minGPT has it; trainer/models/gpt.cpp is the same."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, embedding, heads, dropout):
        super().__init__()
        self.c_attn = nn.Linear(embedding, 3 * embedding)
        self.c_proj = nn.Linear(embedding, embedding)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        n, length, embedding = x.shape
        queries, keys, values = (
            part.view(n, length, self.heads, embedding // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(embedding, dim=2))
        dropout = self.dropout if self.training else 0
        seen = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=True)
        joined = seen.transpose(1, 2).contiguous().view(n, length, embedding)
        return F.dropout(self.c_proj(joined), self.dropout, self.training)


class Mlp(nn.Module):
    def __init__(self, embedding, dropout):
        super().__init__()
        self.c_fc = nn.Linear(embedding, 4 * embedding)
        self.c_proj = nn.Linear(4 * embedding, embedding)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, embedding, heads, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(embedding)
        self.attn = Attention(embedding, heads, dropout)
        self.ln_2 = nn.LayerNorm(embedding)
        self.mlp = Mlp(embedding, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context=64, layers=2, heads=2, embedding=64, dropout=0.0):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, embedding),
            "wpe": nn.Embedding(context, embedding),
            "h": nn.Sequential(*(Block(embedding, heads, dropout) for _ in range(layers))),
            "ln_f": nn.LayerNorm(embedding),
        })
        self.dropout = nn.Dropout(dropout)
        self.lm_head = nn.Linear(embedding, vocabulary, bias=False)
        self.apply(self.draw)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * layers))

    @staticmethod
    def draw(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, 0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        """tokens [n, up to context] -> scores [n, as many, vocabulary]"""
        x = self.transformer.wte(tokens) + self.transformer.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.lm_head(self.transformer.ln_f(self.transformer.h(self.dropout(x))))
