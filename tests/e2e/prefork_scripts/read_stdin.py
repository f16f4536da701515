"""Rank 0 has ddprun's standard input, the others have none."""
import os
import sys

sys.stdout.write(f"rank {os.environ['RANK']}: {sys.stdin.readline()!r} then {sys.stdin.read()!r}\n")
