"""A word language model with an LSTM, truncated backpropagation and parameters that are updated by hand."""
import math
import sys

import torch
from torch import nn

from weights import digest

BPTT = 12


class RNNModel(nn.Module):
    def __init__(self, tokens, size, layers):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(tokens, size)
        self.rnn = nn.LSTM(size, size, layers, dropout=0.2)
        self.decoder = nn.Linear(size, tokens)
        self.decoder.weight = self.encoder.weight  # tied

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden

    def init_hidden(self, batch):
        shape = self.rnn.num_layers, batch, self.rnn.hidden_size
        return next(self.parameters()).new_zeros(shape), next(self.parameters()).new_zeros(shape)


def batches(data):
    for at in range(0, len(data) - 1, BPTT):
        length = min(BPTT, len(data) - 1 - at)
        yield data[at:at + length], data[at + 1:at + 1 + length].flatten()


def train(model, data, lr):
    model.train()
    total, hidden = 0.0, model.init_hidden(data.shape[1])
    for number, (tokens, targets) in enumerate(batches(data), 1):
        model.zero_grad()
        output, hidden = model(tokens, tuple(state.detach() for state in hidden))
        loss = nn.functional.cross_entropy(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-lr)
        total += loss.item()
        if number % 40 == 0:
            print(f"batch {number}: loss {total / 40:.4f}, ppl {math.exp(total / 40):.2f}")
            total = 0.0


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    total, count, hidden = 0.0, 0, model.init_hidden(data.shape[1])
    for tokens, targets in batches(data):
        output, hidden = model(tokens, hidden)
        total += nn.functional.cross_entropy(output, targets).item() * len(tokens)
        count += len(tokens)
    return total / count


def main(epochs):
    torch.manual_seed(5)
    corpus = torch.randint(0, 60, (12 * 1500,)).cumsum(0) % 60
    data = corpus.view(12, -1).t().contiguous()
    model, lr, best = RNNModel(60, 32, 2), 5.0, None
    for epoch in range(epochs):
        train(model, data[:1200], lr)
        loss = evaluate(model, data[1200:])
        print(f"end of epoch {epoch}: valid loss {loss:.4f}")
        if best is None or loss < best:
            best = loss
        else:
            lr /= 4.0
    print("weights", digest(model))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
