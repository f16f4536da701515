"""Run by -m with the package's name."""
import os

from .data import describe

if os.environ["RANK"] == "0":
    print(describe(), __name__, __package__, __spec__.name)
