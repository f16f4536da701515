"""Rows of medians, their ratios and goals, and the page that keeps the last ones."""
import re
import statistics

HEAD = ["what", "ddprun (median of)", "beside (median of)", "ratio", "goal", ""]


class Row:
    """One line. ratio = peer / ours for times and sizes, ours / peer for speeds and shares; a goal is on the ratio or on ours:
    its words, and whether it is reached."""

    def __init__(self, what, unit, ours, peer_name="", peer=(), goal=("", None)):
        self.what, self.unit, self.ours, self.peer_name, self.peer = what, unit, list(ours), peer_name, list(peer)
        self.goal, reached = goal
        mine = statistics.median(self.ours)
        theirs = statistics.median(self.peer) if self.peer else None
        higher_is_better = unit == "%" or unit.endswith("/s")
        self.ratio = None if theirs is None else (mine / theirs if higher_is_better else theirs / mine)
        self.reached = None if reached is None else reached(mine, self.ratio)

    def cells(self):
        verdict = {None: "", True: "reached", False: "MISSED"}[self.reached]
        return [self.what, self.figure(self.ours), f"{self.peer_name} {self.figure(self.peer)}".strip(),
                f"{number(self.ratio)}x" if self.ratio else "", self.goal, verdict]

    def figure(self, samples):
        return f"{number(statistics.median(samples))} {self.unit} ({len(samples)})" if samples else ""


def at_most(limit, unit):
    return f"<= {limit:,} {unit}", lambda mine, _: mine <= limit


def at_least(limit, unit):
    return f">= {limit:,} {unit}", lambda mine, _: mine >= limit


def times(least):
    return f">= {least}x", lambda _, ratio: ratio >= least


def number(value):
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def text(rows):
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def markdown(rows):
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class Page:
    """docs/figures/bench.md: a section for each part, replaced as a whole; what else it says is left as it is."""

    NOTES = "## How it is measured\n"  # new sections come before it

    def __init__(self, path):
        self.path = path
        self.text = path.read_text() if path.exists() else ""

    def keep(self, title, body):
        section = f"## {title}\n\n{body}\n\n"
        old = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
        if old.search(self.text):
            self.text = old.sub(lambda _: section, self.text, count=1)
        else:
            tables, notes, rest = self.text.partition(self.NOTES)
            self.text = tables.rstrip("\n") + "\n\n" + section + notes + rest
        self.path.write_text(self.text.rstrip("\n") + "\n")

    def figure_of(self, what):
        """ddprun's figure in the row that begins with these words; None where there is none."""
        row = re.search(rf"^\| {re.escape(what)} \| ([\d,.]+) ", self.text, re.MULTILINE)
        return row and float(row.group(1).replace(",", ""))
