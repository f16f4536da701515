"""What ddprun --watch adds to the trainers of transformers and Lightning, to accelerate, and to what else writes files: the trainer's
own step, total and loss, exact phases, and under --watch=act a snapshot before a preemption, by the trainer's own means.

imported() is called when one of MODULES has been imported; nothing here imports one by itself.
"""
import functools
import os
import signal
import sys
import threading
import time
import weakref

_ACT = 3                 # the page's `inferred`
_LOSS_EVERY_S = 1
_PREEMPTED = 75          # as ddprun's own exit code: start it again
_STEP_LIMIT_S = 5        # for accelerate's next step, where steps take less
_POLL_S = 0.1


def imported(name):
    """Of a script that goes on whatever happens here."""
    watch = _watch()
    if watch is not None and name not in _followed:
        _followed.add(name)
        watch.carefully(MODULES[name], sys.modules[name])


def follow_imported():
    """Those that were there before torch was watched, as in a fork of --prefork."""
    for name in MODULES:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is not None and not getattr(spec, "_initializing", False):
            imported(name)


_followed = set()


def _watch():
    channel = sys.modules.get("ddprun.channel")
    watch = getattr(channel, "_watch", None)
    return watch if watch is not None and watch.unasked else None


class Training:
    """A run of a trainer: reports its steps, and tells when all ranks save. `saves`: it can, by its own means."""

    def __init__(self, watch, name, step, total=None, saves=False, handler=signal.SIG_DFL, counts=True):
        self.watch, self.channel, self.name = watch, watch.channel, name
        self.first = True
        self.agreement = None
        self.handles = False
        self.snapshot_step = None
        self.loss_at = 0
        if counts:
            watch.training = self
            if not watch.models:
                watch.begin_without_model()
        if total:
            self.channel.total_steps(total)
        if saves and watch.unasked == _ACT and self._handle_signals(handler):
            from ddprun import _agreement
            self.agreement = _agreement.Agreement(self.channel, step)

    def _handle_signals(self, default):
        """False if the script has a handler of its own: it knows what to do."""
        if self.channel._library_signals is None:  # one of Python's would keep a rank that waits for a dead peer
            return False
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != default:
            return False
        if default != signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.channel.handle_signals()
        self.handles = True
        return True

    def reports(self):
        return self.channel._words is not None and not self.watch.off and self.watch.training is self

    def step_done(self, step):
        """What to do now: None, "ending" or "going on"."""
        if not self.reports():
            return None
        if self.first:
            self.channel._write(self.channel._FIRST_STEP, step)
            self.first = False
        self.channel._report_step(step, 1)
        return self.asked(step)

    def asked(self, step):
        if self.agreement is None:
            return None
        from ddprun import _agreement
        try:
            return self.agreement.reached(step)
        except _agreement.NotAgreed as error:
            self.leave(f"{error}")

    def loss(self, step, value):
        if self.reports():
            self.channel.loss(step, float(value))

    def saved(self, step):
        self.snapshot_step = step
        if self.reports():
            self.channel.snapshot(step)

    def exit(self, step, where):
        """Ends this rank, whose snapshot is complete. What the script would do with a trained model is left out."""
        self.handles = False  # a further SIGTERM does not cut its end
        self.end()
        if os.environ.get("RANK") == "0":
            sys.stderr.write(f"ddprun: saved after step {step}: {where}\n")
        raise SystemExit(_PREEMPTED)

    def leave(self, why):
        """As a script that saves nothing."""
        self.end()
        if os.environ.get("RANK") == "0":
            sys.stderr.write(f"ddprun: {self.name} could not save: {why}\n")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def end(self):
        if self.watch.training is self:
            self.watch.training = None
        if self.agreement is not None:
            self.agreement.end()
            self.agreement = None
        if self.handles:
            self.handles = False
            self.channel._leave_signals()


def _wrap(owner, name, make):
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, functools.wraps(original)(make(original)))


class _Unseen:
    """The frame of its block is none of the script's: it is in no traceback."""

    def __enter__(self):
        pass

    def __exit__(self, kind, error, traceback):
        if error is not None:
            error.__traceback__ = traceback.tb_next


_unseen = _Unseen()


def _phases(watch, owner, saves=(), evaluations=()):
    for name in saves:
        _wrap(owner, name, watch.saving)
    for name in evaluations:
        _wrap(owner, name, watch.evaluating)


# transformers

def _transformers_trainer(module):
    watch = _watch()
    _phases(watch, module.Trainer, evaluations=("evaluation_loop",))
    _wrap(module.Trainer, "_save_checkpoint", functools.partial(_transformers_save, watch))

    class DdprunCallback(module.TrainerCallback):
        def __init__(self, trainer):
            self.trainer = weakref.proxy(trainer)
            self.training = None
            self.ending = False

        def __reduce__(self):  # who copies or pickles the trainer gets one that does nothing
            return module.TrainerCallback, ()

        def on_train_begin(self, args, state, control, **_):
            watch.carefully(self.begin, args, state)

        def begin(self, args, state):
            saves = _value(args.save_strategy) != "no" and not args.save_only_model and not state.is_hyper_param_search
            if watch.attach_unasked():
                self.training = Training(watch, "transformers' Trainer", state.global_step, state.max_steps, saves)

        def on_step_end(self, args, state, control, **_):
            asked = self.training and self.training.step_done(state.global_step)
            if asked:
                control.should_save = True
            if asked == "ending":
                self.ending = control.should_training_stop = True
                control.should_evaluate = False
            return control

        def on_save(self, args, state, control, **_):
            if self.ending:
                self.training.exit(state.global_step, os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))

        def on_log(self, args, state, control, logs=None, **_):
            if self.training and logs and isinstance(logs.get("loss"), float):
                self.training.loss(state.global_step, logs["loss"])

        def end(self):
            if self.training:
                self.training.end()

    def following(train):
        def train_followed(trainer, *args, **options):
            with _unseen:
                if _watch() is None or watch.training:
                    return train(trainer, *args, **options)
                callback = DdprunCallback(trainer)
                trainer.add_callback(callback)  # the last one, so that it sees what the others decide
                try:
                    result = train(trainer, *args, **options)
                finally:
                    trainer.remove_callback(callback)
                    callback.end()
                if callback.ending:
                    callback.training.leave("its checkpoint was not written")
                return result
        return train_followed
    _wrap(module.Trainer, "train", following)


def _transformers_save(watch, save):
    save = watch.saving(save)

    def save_checkpoint(trainer, *args, **options):
        with _unseen:
            save(trainer, *args, **options)
        if watch.training and not trainer.args.save_only_model:
            watch.training.saved(trainer.state.global_step)
    return save_checkpoint


def _value(enumerator):
    return getattr(enumerator, "value", enumerator)


def _transformers_models(module):
    _phases(_watch(), module.PreTrainedModel, saves=("save_pretrained",))


# Lightning

def _lightning_trainer(module):
    watch = _watch()
    _wrap(module.Trainer, "save_checkpoint", functools.partial(_lightning_save, watch))
    package = module.__name__.rpartition(".trainer.trainer")[0]

    class DdprunCallback(module.Callback):
        def __init__(self):
            self.training = None
            self.step = None

        def __reduce__(self):  # who copies or pickles the trainer gets one that does nothing
            return module.Callback, ()

        def on_train_start(self, trainer, pl_module):
            watch.carefully(self.begin, trainer)

        def begin(self, trainer):
            if not watch.attach_unasked():
                return
            trainer.callbacks = [each for each in trainer.callbacks if each is not self] + [self]  # after its checkpoints
            keeper = _lightning_keeper(trainer, package)
            default, handler = signal.SIG_DFL, signal.getsignal(signal.SIGTERM)
            connector = getattr(trainer, "_signal_connector", None)
            if connector is not None and getattr(connector, "_original_handlers", {}).get(signal.SIGTERM) == signal.SIG_DFL and \
                    len(getattr(handler, "signal_handlers", ())) == 1:
                default = handler  # Lightning's own, which saves nothing and broadcasts within the handler
            self.step = trainer.global_step
            self.training = Training(watch, "Lightning", self.step, _lightning_total(trainer), keeper is not None, default)

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            step = trainer.global_step
            if self.training is None or step == self.step:
                return  # or its gradients are being accumulated
            self.step = step
            asked = self.training.step_done(step)
            if time.monotonic() - self.training.loss_at >= _LOSS_EVERY_S:
                self.training.loss_at = time.monotonic()
                watch.carefully(self.tell_loss, step, outputs)
            if asked:
                self.save(trainer, step, asked == "ending")

        def tell_loss(self, step, outputs):
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            if isinstance(loss, watch.torch.Tensor) and loss.numel() == 1 and loss.device.type == "cpu":  # else it waits for the GPU
                self.training.loss(step, loss)

        def save(self, trainer, step, ending):
            keeper = _lightning_keeper(trainer, package)
            name = keeper.CHECKPOINT_NAME_LAST  # where ckpt_path="last" looks
            path = keeper.last_model_path or keeper.format_checkpoint_name(keeper._monitor_candidates(trainer), name)
            keeper.last_model_path = path
            keeper._save_checkpoint(trainer, path)
            if ending:
                self.training.exit(step, path)

        def end(self):
            if self.training:
                self.training.end()

    def following(fit):
        def fit_followed(trainer, *args, **options):
            with _unseen:
                if _watch() is None or watch.training or _lightning_starts_processes(trainer):
                    return fit(trainer, *args, **options)
                callback = DdprunCallback()
                trainer.callbacks.append(callback)
                try:
                    return fit(trainer, *args, **options)
                finally:
                    trainer.callbacks = [each for each in trainer.callbacks if each is not callback]
                    callback.end()
        return fit_followed
    _wrap(module.Trainer, "fit", following)


def _lightning_starts_processes(trainer):
    """Of its own to train in, by spawn or fork: they are not ddprun's ranks."""
    return getattr(getattr(trainer.strategy, "launcher", None), "_start_method", None) is not None


def _lightning_keeper(trainer, package):
    """Its ModelCheckpoint, if that writes what a run can go on from."""
    checkpoints = sys.modules[package + ".callbacks.model_checkpoint"].ModelCheckpoint
    keepers = [one for one in trainer.checkpoint_callbacks if isinstance(one, checkpoints) and not one.save_weights_only and
               (one.save_top_k != 0 or one.save_last) and one.dirpath]
    if trainer.fast_dev_run or not keepers:
        return None
    return next((one for one in keepers if one.save_last), keepers[0])


def _lightning_total(trainer):
    try:
        total = trainer.estimated_stepping_batches
        return int(total) if 0 < total < float("inf") else None
    except Exception:  # it depends on a schedule of gradient accumulation
        return None


def _lightning_save(watch, save):
    save = watch.saving(save)

    def save_checkpoint(trainer, filepath, weights_only=None, *args, **options):
        with _unseen:
            save(trainer, filepath, weights_only, *args, **options)
        if watch.training and not weights_only:
            watch.training.saved(trainer.global_step)
    return save_checkpoint


# accelerate

def _accelerate(module):
    watch = _watch()
    prepared = []  # the last accelerator that can save by itself

    def saving(save_state):
        save_state = watch.saving(save_state)

        def save_state_told(accelerator, *args, **options):
            with _unseen:
                place = save_state(accelerator, *args, **options)
            if watch.reports_here():
                step = watch.channel._words[watch.channel._STEP]
                (watch.training.saved if watch.training else watch.channel.snapshot)(step)
            return place
        return save_state_told
    _wrap(module.Accelerator, "save_state", saving)

    def preparing(prepare):
        def prepare_seen(accelerator, *args, **options):
            with _unseen:
                result = prepare(accelerator, *args, **options)
            if accelerator.project_configuration.automatic_checkpoint_naming and accelerator.project_dir:
                prepared[:] = [weakref.ref(accelerator)]
            return result
        return prepare_seen
    _wrap(module.Accelerator, "prepare", preparing)

    accelerating = _Accelerating(watch, prepared)

    def ending(end):
        def end_training(accelerator, *args, **options):
            accelerating.end()
            with _unseen:
                return end(accelerator, *args, **options)
        return end_training
    _wrap(module.Accelerator, "end_training", ending)

    def iterating(iterate):
        def iterate_asked(loader):
            with _unseen:
                accelerating.loops += 1
                try:
                    for batch in iterate(loader):
                        yield batch
                        accelerating.before_batch()  # all that the script does after a step is done
                finally:
                    accelerating.loops -= 1
        return iterate_asked
    loaders = sys.modules["accelerate.data_loader"]
    _wrap(loaders.DataLoaderShard, "__iter__", iterating)
    _wrap(loaders.DataLoaderDispatcher, "__iter__", iterating)


class _Accelerating:
    """Between two batches of a loop that accelerate's optimizers train in. Nobody tells when the script has trained: where no step
    comes any more, a signal has to end the process as ever."""

    def __init__(self, watch, prepared):
        self.watch, self.prepared = watch, prepared
        self.training = None
        self.step = 0
        self.loops = 0            # iterations that have begun and not ended
        self.at = self.took = 0   # when the last step was done, and what it took
        self.lock = threading.RLock()  # also while it saves, however long that takes

    def before_batch(self):
        channel = self.watch.channel
        if not self.prepared or channel._words is None or not self.watch.reports_here():
            return
        step = channel._words[channel._STEP]
        if step == self.step or self.watch.training is not None:
            return  # no step since, or a Trainer has the loop
        self.step = step
        accelerator = self.prepared[0]()
        if accelerator is None or self.watch.unasked != _ACT:
            return
        with self.lock:
            now = time.monotonic()
            self.took, self.at = now - self.at if self.at else 0, now
            if self.training is None:
                self.watch.carefully(self.begin, step)
            asked = self.training and self.training.asked(step)
            if asked:
                self.save(accelerator, step, asked == "ending")
                self.at = time.monotonic()

    def begin(self, step):
        self.training = Training(self.watch, "accelerate", step, saves=True, counts=False)
        if self.training.agreement is not None:
            threading.Thread(target=self.end_without_steps, args=(self.training,), name="ddprun", daemon=True).start()

    def end_without_steps(self, training):
        while training.agreement is not None:
            time.sleep(_POLL_S)
            with self.lock:
                limit = max(_STEP_LIMIT_S, 3 * self.took if self.loops else 0)
                if training.agreement is None or time.monotonic() - self.at < limit:
                    continue
                asked = training.agreement.asked_to_end()
                training.end()
                self.training = None  # until the next step
            if asked and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                os.kill(os.getpid(), signal.SIGTERM)

    def save(self, accelerator, step, ending):
        config, folder = accelerator.project_configuration, os.path.join(accelerator.project_dir, "checkpoints")
        names = [name for name in os.listdir(folder)] if os.path.isdir(folder) else []
        if f"checkpoint_{config.iteration}" in names:  # of a run before, where accelerate would refuse
            numbers = [int(name[len("checkpoint_"):]) for name in names if name[len("checkpoint_"):].isdigit()]
            config.iteration = max(numbers) + 1
        place = os.path.join(folder, f"checkpoint_{config.iteration}")
        accelerator.save_state()
        if ending:
            self.training.exit(step, place)

    def end(self):
        if self.watch.channel._words is None:
            return  # in a fork, where nobody may give the lock back
        with self.lock:
            if self.training:
                self.training.end()
                self.training = None


# What else writes files

def _safetensors(module):
    _phases(_watch(), module, saves=("save_file", "save_model"))


def _distributed_checkpoint(module):
    _phases(_watch(), module, saves=("save", "async_save"))


MODULES = {
    "transformers.trainer": _transformers_trainer,
    "transformers.modeling_utils": _transformers_models,
    "pytorch_lightning.trainer.trainer": _lightning_trainer,
    "lightning.pytorch.trainer.trainer": _lightning_trainer,
    "accelerate.accelerator": _accelerate,
    "safetensors.torch": _safetensors,
    "torch.distributed.checkpoint": _distributed_checkpoint,
}
