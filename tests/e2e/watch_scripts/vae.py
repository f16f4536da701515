"""A variational autoencoder on one process, which writes reconstructions after each epoch."""
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from weights import digest


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(196, 64), nn.Linear(64, 8), nn.Linear(64, 8)
        self.fc3, self.fc4 = nn.Linear(8, 64), nn.Linear(64, 196)

    def encode(self, x):
        hidden = F.relu(self.fc1(x))
        return self.fc21(hidden), self.fc22(hidden)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.flatten(1))
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decode(z), mu, logvar


def loss_function(images, x, mu, logvar):
    return F.binary_cross_entropy(images, x.flatten(1), reduction="sum") - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def main(epochs):
    torch.manual_seed(8)
    data = TensorDataset(torch.rand(1200, 1, 14, 14).round())
    train_loader = DataLoader(data, batch_size=20, shuffle=True)
    test_loader = DataLoader(data, batch_size=100)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as results:
        for epoch in range(1, epochs + 1):
            model.train()
            total = 0.0
            for x, in train_loader:
                optimizer.zero_grad()
                images, mu, logvar = model(x)
                loss = loss_function(images, x, mu, logvar)
                loss.backward()
                total += loss.item()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                test = sum(loss_function((y := model(x))[0], x, *y[1:]).item() for x, in test_loader)
                torch.save(model.decode(torch.randn(16, 8)).view(16, 1, 14, 14), os.path.join(results, f"sample_{epoch}.pt"))
            print(f"epoch {epoch}: average loss {total / len(data):.4f}, test {test / len(data):.4f}")
    print("weights", digest(model))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
