"""torchrun's variables, for Python and for C."""
import ctypes
import os
import sys

BEGINNINGS = ("RANK", "LOCAL", "WORLD", "GROUP", "ROLE", "TORCHELASTIC", "MASTER", "OMP_", "PYTHONPATH", "PYTHONUNBUFFERED")
VARYING = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE")

getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
lines = [f"{name}={'(set)' if name in VARYING else value}" for name, value in sorted(os.environ.items())
         if name.startswith(BEGINNINGS)]
lines.append(f"names: {' '.join(sorted(os.environ))}")
lines.append(f"the same for C: {all(getenv(name.encode()) == value.encode() for name, value in os.environ.items())}")
lines.append(f"of a template: {[name for name in os.environ if name.startswith('DDPRUN_TEMPLATE')]}")
lines.append(f"error file is absent: {not os.path.exists(os.environ['TORCHELASTIC_ERROR_FILE'])}")
sys.stdout.write("".join(f"rank {os.environ['RANK']}: {line}\n" for line in lines))
