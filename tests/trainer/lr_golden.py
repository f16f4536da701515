"""Prints what torch.optim.lr_scheduler gives: testdata/lr.txt, which lr_schedule_test.cpp compares ddprun with. To refresh it:

  .venv/bin/python tests/trainer/lr_golden.py > tests/trainer/testdata/lr.txt

One line per schedule: the base rate, then each rule's name and numbers, "at <step>" between two rules, ":", and the rates of 40 steps.
Numbers are exact: hexadecimal, as C's strtod reads them.
"""
import random
import warnings

warnings.filterwarnings("ignore")  # torch's, about what is not installed
import torch
from torch.optim import lr_scheduler as lr

STEPS = 40
RULES = {
    "constant": lambda o, factor, total: lr.ConstantLR(o, factor, int(total)),
    "linear": lambda o, start, end, total: lr.LinearLR(o, start, end, int(total)),
    "step": lambda o, size, gamma: lr.StepLR(o, int(size), gamma),
    "multistep": lambda o, gamma, *milestones: lr.MultiStepLR(o, [int(m) for m in milestones], gamma),
    "exponential": lambda o, gamma: lr.ExponentialLR(o, gamma),
    "cosine": lambda o, t_max, eta_min: lr.CosineAnnealingLR(o, int(t_max), eta_min),
    "polynomial": lambda o, total, power: lr.PolynomialLR(o, int(total), power),
    "lambda": lambda o, divisor: lr.LambdaLR(o, lambda step: 1 / (1 + step / divisor)),
}


def text(rule):
    return " ".join([rule[0], *(float(number).hex() for number in rule[1:])])


def line(base, rules, milestones=()):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=base)
    schedule = [RULES[rule[0]](optimizer, *rule[1:]) for rule in rules]
    schedule = schedule[0] if len(rules) == 1 else lr.SequentialLR(optimizer, schedule, list(milestones))
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    words = [float(base).hex(), text(rules[0])]
    for milestone, rule in zip(milestones, rules[1:]):
        words += [f"at {milestone}", text(rule)]
    return " ".join(words + [":"] + [float(rate).hex() for rate in rates])


def random_rule(draw):
    steps = draw.randrange(1, 30)
    return draw.choice([
        ("constant", draw.uniform(0.01, 1), steps),
        ("linear", draw.uniform(0.001, 1), draw.random(), steps),
        ("step", draw.randrange(1, 9), draw.random()),
        ("multistep", draw.random(), *(draw.randrange(0, 40) for _ in range(5))),
        ("exponential", draw.uniform(0.8, 1)),
        ("cosine", steps, draw.choice((0, 0.001))),
        ("polynomial", steps, draw.choice((0.5, 1, 2))),
        ("lambda", steps),
    ])


for rule in (("step", 3, 0.1), ("multistep", 0.1, 5, 8, 8), ("multistep", 0.5, 0, 3), ("cosine", 30, 0), ("cosine", 1, 0), ("cosine", 7, 0.01),
             ("linear", 1 / 3, 1, 5), ("linear", 0.01, 1, 20), ("linear", 1, 0, 10), ("constant", 1 / 3, 5), ("exponential", 0.9),
             ("polynomial", 10, 1), ("lambda", 10)):
    print(line(0.1, [rule]))
print(line(0.1, [("linear", 0.01, 1, 5), ("cosine", 35, 0)], [5]))
draw = random.Random(6)
for _ in range(20):
    print(line(draw.uniform(1e-5, 1), [random_rule(draw)]))
for _ in range(20):
    milestones = sorted(draw.sample(range(1, 39), draw.randrange(1, 4)))
    print(line(draw.uniform(1e-5, 1), [random_rule(draw) for _ in range(len(milestones) + 1)], milestones))
