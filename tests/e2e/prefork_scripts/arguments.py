"""Options by argparse, and the command line as Python shows it."""
import argparse
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("data", nargs="?")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--local-rank", "--local_rank", type=int)
parser.add_argument("--resume", action="store_true")
parser.add_argument("rest", nargs=argparse.REMAINDER)
args = parser.parse_args()
lines = [parser.format_usage().splitlines()[0], args, sys.argv, sys.orig_argv[1:]]
sys.stdout.write("".join(f"rank {os.environ['RANK']}: {line}\n" for line in lines))
