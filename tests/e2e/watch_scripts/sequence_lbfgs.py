"""A sine wave is predicted by two LSTM cells, trained by LBFGS with a closure, in double precision."""
import sys

import torch
from torch import nn, optim

from weights import digest


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 12), nn.LSTMCell(12, 12), nn.Linear(12, 1)

    def forward(self, x, future=0):
        h1, c1, h2, c2 = (torch.zeros(x.size(0), 12, dtype=torch.double) for _ in range(4))
        outputs = []
        for part in x.split(1, dim=1):
            h1, c1 = self.lstm1(part, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(self.linear(h2))
        for _ in range(future):
            h1, c1 = self.lstm1(outputs[-1], (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, dim=1)


def main(steps):
    torch.manual_seed(9)
    phases = torch.randint(-40, 40, (8, 1))
    data = torch.sin((torch.arange(60) + phases) / 10.0).double()
    model = Sequence().double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(model.parameters(), lr=0.8, max_iter=4)
    for step in range(steps):
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(data[3:, :-1]), data[3:, 1:])
            loss.backward()
            return loss
        loss = optimizer.step(closure)
        with torch.no_grad():
            predicted = model(data[:3, :-1], future=20)
            print(f"step {step}: loss {loss.item():.8f}, test {criterion(predicted[:, :-20], data[:3, 1:]).item():.8f}")
    print("weights", digest(model))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
