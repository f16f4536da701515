"""ddprun from Python.

    import ddprun
    loss = ddprun.launch(train, 0.1, nproc_per_node=4)   # train(0.1) on four ranks; rank 0's value comes back

    %load_ext ddprun                                     # in a notebook: %%ddprun -n 4 runs a cell on four ranks

ddprun.channel is the worker channel: steps, phases and requests to save; each worker of ddprun can import it. The program itself is `ddprun`, also as
`python -m ddprun`.
"""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddprun._launch import LaunchFailed, launch

__all__ = ["LaunchFailed", "launch"]


def __getattr__(name):  # workers import this package for its channel alone: launch() is loaded by who calls it
    if name in __all__:
        from ddprun import _launch
        return getattr(_launch, name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'ddprun' has no attribute '{name}'")


def _version():
    from importlib.metadata import PackageNotFoundError, version
    try:
        return version("ddprun")
    except PackageNotFoundError:  # not from a wheel, but beside its program
        import subprocess
        from ddprun._program import find_program
        return subprocess.check_output([find_program(), "--version"], text=True).split()[1]


def load_ipython_extension(shell):
    from ddprun import _magic
    _magic.load(shell)


def unload_ipython_extension(shell):
    from ddprun import _magic
    _magic.unload(shell)
