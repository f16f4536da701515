"""Reinforcement learning: a pole on a cart, an actor and a critic, a step of the optimizer after each episode."""
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.distributions import Categorical

from weights import digest


class CartPole:
    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        push = (force + 0.05 * turn * turn * math.sin(angle)) / 1.1
        spin = (9.8 * math.sin(angle) - math.cos(angle) * push) / (0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) ** 2 / 1.1))
        self.state = [x + 0.02 * speed, speed + 0.02 * (push - 0.05 * spin * math.cos(angle) / 1.1), angle + 0.02 * turn,
                      turn + 0.02 * spin]
        return self.state, 1.0, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 32)
        self.action = nn.Linear(32, 2)
        self.value = nn.Linear(32, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.action(x), dim=-1), self.value(x)


def main(episodes):
    torch.manual_seed(7)
    random.seed(7)
    env, model = CartPole(), Policy()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    running = 10.0
    for episode in range(episodes):
        state, saved, rewards, done = env.reset(), [], [], False
        while not done and len(rewards) < 200:
            chances, value = model(torch.tensor(state))
            choice = Categorical(chances)
            action = choice.sample()
            saved.append((choice.log_prob(action), value))
            state, reward, done = env.step(action.item())
            rewards.append(reward)
        running = 0.05 * len(rewards) + 0.95 * running
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        losses = [-log * (ret - value.item()) + F.smooth_l1_loss(value, ret.view(1)) for (log, value), ret in zip(saved, returns)]
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        optimizer.step()
        if episode % 10 == 0:
            print(f"episode {episode}: {len(rewards)} steps, average {running:.2f}")
    print("weights", digest(model))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
