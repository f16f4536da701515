# Of `ddprun --watch`, first in the PYTHONPATH of its workers: Python imports a module of this name at its own start. It waits
# until torch is imported, and then has ddprun._pytorch look on, and ddprun._trainers where a trainer is imported. It costs nothing
# where torch is not imported, and does nothing in processes that a rank has started, which have no channel.
import os
import sys


def _go_on():
    """With the sitecustomize that would have been imported, as if this file did not exist."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != here]
    sys.path_importer_cache.pop(here, None)
    del sys.modules["sitecustomize"]
    import sitecustomize  # without one the error that site expects


def _watch():
    try:
        from ddprun import _pytorch
        _pytorch.watch_all(os.environ["DDPRUN_WATCH"])
    except Exception as error:  # the script is what counts
        if os.environ.get("RANK") == "0":
            sys.stderr.write(f"ddprun: --watch sees nothing of this script: {type(error).__name__}: {error}\n")


def _imported(name):
    if name == "torch":
        _watch()
    elif "ddprun._trainers" in sys.modules:
        sys.modules["ddprun._trainers"].imported(name)


class _Waits:
    """A finder that finds nothing itself: it has the loaders of these say when they are done."""
    names = {"torch", "torch.distributed.checkpoint", "safetensors.torch", "transformers.trainer", "transformers.modeling_utils",
             "pytorch_lightning.trainer.trainer", "lightning.pytorch.trainer.trainer", "accelerate.accelerator"}
    asks = False

    def find_spec(self, name, path=None, target=None):
        if name not in self.names or self.asks:
            return None
        self.asks = True
        try:
            specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self.asks = False
        execute = getattr(spec and spec.loader, "exec_module", None)
        if execute is not None:
            def exec_module(module):
                del spec.loader.exec_module
                execute(module)
                if name in self.names:
                    self.names.remove(name)
                    _imported(name)
            spec.loader.exec_module = exec_module
        return spec


def _has_channel():
    try:
        return os.fstat(int(os.environ["DDPRUN_CHANNEL_FD"])).st_size == 4096
    except (KeyError, ValueError, OSError):
        return False


if os.environ.get("DDPRUN_WATCH") in ("see", "act") and _has_channel():
    if "torch" in sys.modules:  # a fork of --prefork
        _Waits.names.remove("torch")
        _watch()
    sys.meta_path.insert(0, _Waits())
_go_on()
