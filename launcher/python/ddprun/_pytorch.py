"""What channel.watch() and ddprun --watch add to PyTorch: they report phases, steps and beats by the channel that is passed in,
which is ddprun.channel or a copy of it beside the script. Imported only then, and in workers of ddprun only."""
import contextlib
import functools
import gc
import io
import os
import struct
import sys
import threading
import weakref

from ddprun import _record

# The collectives that block, by their names in a beat, which the C++ library uses, too.
_COLLECTIVES = {
    "alltoall": ["all_to_all", "all_to_all_single"],
    "barrier": ["barrier", "monitored_barrier"],
    "bcast": ["broadcast", "broadcast_object_list"],
    "gather": ["all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object"],
    "recv": ["recv"],
    "redscat": ["reduce_scatter", "reduce_scatter_tensor"],
    "reduce": ["all_reduce", "reduce"],
    "scatter": ["scatter", "scatter_object_list"],
    "send": ["send"],
}


def is_compiling():
    """PyTorch's function, once there is one. Hooks have nothing to do in a graph that is being made, and are not in it then."""
    return True


def never(*_):
    return False


# What a step of a script calls of this is short, with few calls: after a step's own work nothing of it is in the processor's
# caches, and takes five times as long as alone.
class Hook:
    """One on a model. A model that is pickled leaves it behind, since nobody expects it where the model is loaded: `left` does
    nothing there. One that is copied has it, too."""

    def __init__(self, hook, left=({}, "get")):
        self.hook, self.left = hook, left

    def __call__(self, *args):
        return self.hook(*args)

    def __deepcopy__(self, memo):
        return Hook(self.hook, self.left)

    def __reduce__(self):
        return getattr, self.left


class OfWatch(Hook):
    """Calls the watch itself, where that has to know more than that it goes on as before."""

    def __init__(self, watch):
        self.watch, self.left = watch, ({}, "get")

    def __deepcopy__(self, memo):
        return type(self)(self.watch)


class BeforeForward(OfWatch):
    """Of a model that is not DistributedDataParallel."""

    def __call__(self, module, inputs):
        if not is_compiling():
            watch = self.watch
            if module.training and watch.has_gradients() and watch.computes():
                watch.trained = watch.has_model = True
            else:
                watch.before_forward(module, inputs)


class BeforeInnerForward(OfWatch):
    """Of the module within DistributedDataParallel, which a rank may evaluate by itself."""

    def __call__(self, module, inputs):
        if not is_compiling() and not (module.training and self.watch.has_gradients()):
            self.watch.before_inner_forward()


class ParallelForward(OfWatch):
    """Before the forward pass of a DistributedDataParallel all of whose parameters get gradients: one of them tells of
    each backward, as a hook that stays costs less than one on every output. It is on the node that accumulates the
    gradient, which the reducer keeps alive; the tensor has none. A copy of the model has nodes of its own."""

    def __init__(self, watch):
        super().__init__(watch)
        self.hooked = False
        self.expected = False  # the backward of the last forward pass ends in a wait for gradients

    def __call__(self, module, inputs):
        if is_compiling():
            return
        watch = self.watch
        # Lightning switches the module within only. Around all may be what torch.compile() has made.
        if module._modules.get("module", module).training and watch.has_gradients() and watch.computes():
            watch.trained = watch.has_model = True
        else:
            watch.before_forward(module, inputs)
            if watch.channel._words is None or watch.off or not watch.has_gradients():
                return
        if module.require_backward_grad_sync:
            watch.in_backward = False  # the pass before may have ended by an exception
            self.expected = True
            if not self.hooked:
                self.hook(module)

    def hook(self, parallel):
        self.hooked = True
        for name, parameter in parallel.module.named_parameters():
            if parameter.requires_grad and name not in parallel.parameters_to_ignore:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                return node.register_prehook(self.before_gradient)

    def before_gradient(self, gradients):
        if self.expected:
            self.expected = False
            watch = self.watch
            if not watch.in_backward:
                watch.in_backward = True
                watch.queue(watch.before_wait)


class Watch:
    """What watch() adds to PyTorch, once in a process."""

    def __init__(self, channel):
        self.channel = channel       # the module whose page gets the reports: ddprun.channel, or a copy beside the script
        self.thread = None           # the one that called watch()
        self.torch = self.parallel_class = None
        self.trained = False         # a forward pass that trains has begun since the last step
        self.reported_steps = False
        self.in_backward = False     # of a pass that ends in a wait for gradients
        self.static_graph = False    # of some model
        self.before_gradients, self.gradients = self.channel.NONE, self.channel._name("grads")
        self.replaced = set()
        self.models = weakref.WeakSet()
        self.collectives = self.saves = True
        self.off = False             # the script reports by itself
        self.unasked = 0             # of ddprun --watch: the page's `inferred`; 0: the script has asked
        self.optimizer = self.other = None  # whose steps count there, and the last other one
        self.parallels = weakref.WeakSet()  # of class DistributedDataParallel
        self.has_looked = False      # for models that train, after the first step with them
        self.finds_model = None      # a hook on all modules, until the first one that trains
        self.compiled_call = None    # what is replaced of torch.compile()'s class meanwhile, and how it was
        self.has_model = True
        self.training = None         # of a trainer, which counts the steps: _trainers.Training
        self.steady = None           # to the optimizer whose next step needs nothing but its report
        self.has_gradients = self.queue = None  # PyTorch's functions
        self.computes = never        # the channel's, once a forward pass needs nothing but its report
        self.stepped = None          # the channel's

    def on_page(self, offset):
        return struct.unpack_from("I", self.channel._page, offset)[0]

    def set_inferred(self, value):
        struct.pack_into("I", self.channel._page, self.channel._INFERRED, value)

    def phase_now(self):
        return self.channel._words[self.channel._PHASE]

    def beat_now(self):
        return self.channel._words[self.channel._BEAT] & 0xFF

    def begin(self):
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from torch.optim.optimizer import register_optimizer_step_post_hook
        self.parallel_class = DistributedDataParallel
        global is_compiling
        if self.torch is None:
            is_compiling, self.has_gradients = torch.compiler.is_compiling, torch.is_grad_enabled
            self.queue = torch.autograd.Variable._execution_engine.queue_callback
            register_optimizer_step_post_hook(self.after_optimizer)
        self.torch, self.thread = torch, threading.get_ident()
        if self.channel._page is None:
            return
        self.off = False
        self.set_inferred(self.unasked or 1)
        _record.open_once()
        if self.phase_now() == 0:
            self.channel.phase(self.channel.LOADING)
        self.replace(torch.jit._recursive, "create_script_module", self.scripting)

    def scripting(self, function):
        """torch.jit.script() compiles the hooks of a module, which ours are not made for."""
        def script(module, *args, **options):
            hooks = [each for part in module.modules() for each in (part._forward_pre_hooks, part._forward_hooks) if each]
            before = [dict(each) for each in hooks]
            for each in hooks:
                for key in [key for key, hook in each.items() if isinstance(hook, Hook)]:
                    del each[key]
            try:
                return function(module, *args, **options)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                for each, all_hooks in zip(hooks, before):
                    each.clear()
                    each.update(all_hooks)
        return script

    def watch_model(self, model):
        from torch.nn.parallel import DistributedDataParallel
        self.begin()
        parallel = getattr(model, "_orig_mod", model)  # torch.compile() holds it there
        if model in self.models:
            return
        self.models.add(model)
        if self.collectives:
            self.replace_collectives()
        if self.saves:
            self.replace_save()
        if not isinstance(parallel, DistributedDataParallel):
            model.register_forward_pre_hook(BeforeForward(self), prepend=True)
            return
        if parallel.find_unused_parameters or parallel.static_graph:
            model.register_forward_pre_hook(Hook(self.before_forward), prepend=True)
            model.register_forward_hook(Hook(self.after_forward, (contextlib.nullcontext(), "__exit__")))
        else:
            model.register_forward_pre_hook(ParallelForward(self), prepend=True)
        if parallel is model and not hasattr(model.module, "_orig_mod"):
            model.module.register_forward_pre_hook(BeforeInnerForward(self), prepend=True)

    # Of ddprun --watch. Nothing is attached before something trains.
    def begin_unasked(self, inferred):
        from torch.nn.parallel import DistributedDataParallel
        from torch.compiler import is_compiling  # PyTorch 2.3
        self.unasked = inferred
        self.begin()
        # Not the constructor: its warnings name the line that called it, which has to be the script's.
        self.replace(DistributedDataParallel, "_ddp_init_helper", self.constructing)

    def constructing(self, function):
        def construct(parallel, *args, **options):
            try:
                function(parallel, *args, **options)
            except BaseException as error:
                leave_traceback(error)
                raise
            if self.unasked:
                self.carefully(self.found_parallel, parallel)
        return construct

    def carefully(self, do, *args):
        """The script is what counts: it gets no exception of ours."""
        try:
            do(*args)
        except Exception as error:
            self.stop()
            if os.environ.get("RANK") == "0":
                sys.stderr.write(f"ddprun: --watch sees no more of this script: {type(error).__name__}: {error}\n")

    def attach_unasked(self):
        if threading.get_ident() != self.thread:
            return False
        if self.channel._page is None:
            self.channel._map()
            if self.channel._page is None or self.on_page(self.channel._ATTACHED) != 0:  # by C++, or a copy
                self.unasked = 0
                self.channel._detach()
                return False
        if not self.channel._attach():
            self.unasked = 0
        return self.unasked != 0

    def found_parallel(self, parallel):
        if self.attach_unasked():
            self.stop_finding()
            self.parallels.add(parallel)
            self.begin_without_model()

    def leave_to_script(self):
        """It uses the channel itself: what it does not ask for is not watched."""
        if self.unasked:
            self.stop()
            if self.channel._page is not None:
                self.set_inferred(0)

    def stop(self):
        self.unasked, self.off, self.steady, self.computes = 0, True, None, never
        self.stop_finding()
        if self.training is not None:
            self.training.end()

    def first_step_without_model(self):
        if not self.attach_unasked():
            return
        self.begin_without_model()

    def begin_without_model(self):
        self.begin()
        self.replace_collectives()
        self.replace_save()
        self.has_looked, self.steady, self.computes = False, None, never
        if not self.models:
            self.has_model = False

    def look_for_models(self):
        """After a step it is known what torch.compile() has compiled. There a hook would make it compile more, or again, so it
        is on what surrounds that."""
        self.has_looked = True
        if self.phase_now() != self.channel.TRAINING:
            self.channel.phase(self.channel.TRAINING)
        dynamo, compiled = sys.modules.get("torch._dynamo.utils"), []
        has_graphs = dynamo is not None and dynamo.counters["stats"]["unique_graphs"] > 0
        if has_graphs:
            from torch._dynamo.eval_frame import OptimizedModule
            compiled = [model for model in gc.get_referrers(OptimizedModule) if type(model) is OptimizedModule]
        around = {model._orig_mod: model for model in compiled}
        for model in [around.get(parallel, parallel) for parallel in self.parallels] or compiled:
            if model._compiled_call_impl is None:  # else its hooks are compiled, too
                self.watch_model(model)
        if not self.parallels and not has_graphs:
            self.find_model()

    def find_model(self):
        from torch.nn.modules.module import register_module_forward_pre_hook
        self.finds_model = register_module_forward_pre_hook(self.found_model)
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if dynamo is not None and "__call__" in vars(dynamo.OptimizedModule):
            self.compiled_call = dynamo.OptimizedModule, dynamo.OptimizedModule.__call__
            dynamo.OptimizedModule.__call__ = self.calling_compiled(dynamo.OptimizedModule.__call__)

    def calling_compiled(self, function):
        """It warns of hooks on all modules. A filter for that would have Python show other warnings again that were shown before."""
        def call(module, *args, **options):
            self.stop_finding()
            if self.trains(module):
                self.carefully(self.use_model, module, args)
            else:
                self.has_looked = False
            return function(module, *args, **options)
        return call

    def found_model(self, module, inputs):
        if not self.torch.compiler.is_compiling() and self.trains(module):
            self.carefully(self.use_model, module, inputs)

    def use_model(self, module, inputs):
        self.stop_finding()
        parallel = isinstance(module, self.parallel_class)
        module.register_forward_pre_hook(Hook(self.before_forward) if parallel else BeforeForward(self), prepend=True)
        self.before_forward(module, inputs)

    def stop_finding(self):
        if self.finds_model is not None:
            self.finds_model.remove()
            self.finds_model = None
            if self.compiled_call is not None:
                compiled, call = self.compiled_call
                compiled.__call__ = call
                self.compiled_call = None

    def trains(self, module):
        # Lightning switches the module within DistributedDataParallel only.
        training = module.module.training if isinstance(module, self.parallel_class) else module.training
        return training and self.torch.is_grad_enabled()

    def before_inner_forward(self):
        if self.reports_here() and self.phase_now() != self.channel.EVALUATING:
            self.channel.phase(self.channel.EVALUATING)

    def before_forward(self, module, inputs):
        if is_compiling() or self.channel._words is None or self.off:
            return
        if not self.trains(module):
            if self.phase_now() != self.channel.EVALUATING:
                self.channel.phase(self.channel.EVALUATING)
            return
        self.trained = self.has_model = True
        if self.phase_now() == self.channel.TRAINING:
            self.channel.beat(self.channel.COMPUTE)
        else:
            self.channel.phase(self.channel.TRAINING)
        self.computes = getattr(self.channel, "_library_computes", None) or never  # a copy may be older

    def after_forward(self, module, inputs, outputs):
        if is_compiling():
            return
        self.in_backward = False  # the pass before may have ended by an exception
        if self.channel._words is None or self.off or not module.require_backward_grad_sync or not self.torch.is_grad_enabled():
            return
        self.static_graph = self.static_graph or module.static_graph
        for tensor in tensors(outputs, self.torch.Tensor):
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(self.before_backward)

    # The engine runs callbacks after the whole backward, in the order in which they were queued. The reducer's, which
    # waits, was queued by the last gradient; in a static graph's first pass a callback that comes after ours queues it.
    def before_backward(self, gradients):
        if not self.in_backward:
            self.in_backward = True
            self.queue(self.before_wait)

    def before_wait(self):
        self.before_gradients = self.channel.beat(self.channel.WAIT, self.gradients)
        self.queue(self.queue_after_wait if self.static_graph else self.after_wait)

    def queue_after_wait(self):
        self.queue(self.after_wait)

    def after_wait(self):
        self.in_backward = False
        self.channel.beat(self.before_gradients)

    def after_optimizer(self, optimizer, inputs, options):
        if is_compiling():
            return
        if self.steady is not None and self.steady() is optimizer and self.training is None and self.stepped(self.unasked):
            self.other, self.trained = None, False
            return
        if self.channel._words is None and self.unasked:
            self.carefully(self.first_step_without_model)
        if self.channel._words is None or self.off:
            return
        if self.unasked and self.on_page(self.channel._INFERRED) != self.unasked:
            return self.stop()  # the script reports by a copy of the channel
        # A compiled model does not tell when it trains.
        done = self.counts(optimizer) if self.unasked else self.trained
        if done and not self.channel._script_steps and self.training is None:
            self.reported_steps = True
            # Nobody knows how long the first one took: it does not count for the pace.
            self.channel._report_step(self.channel._words[self.channel._STEP] + 1, int(self.has_looked or not self.unasked))
        if self.unasked and not (self.has_looked and self.has_model):
            if not self.has_looked:
                self.carefully(self.look_for_models)
            elif self.finds_model is not None and self.channel._words[self.channel._STEP] > 2:
                self.stop_finding()  # no module trains
        self.trained = False
        if self.beat_now() != self.channel.NONE and self.has_model:
            self.channel.beat(self.channel.LOAD)
        goes_on = self.unasked and done and self.reported_steps and self.has_looked and self.has_model and self.finds_model is None
        self.stepped = getattr(self.channel, "_library_stepped", None)
        self.steady = self.optimizer if goes_on and self.stepped and not self.channel._script_steps else None

    def counts(self, optimizer):
        """Of several, as of two networks, one's steps are the job's: the first one's, until another one steps alone."""
        counted, other = self.optimizer and self.optimizer(), self.other and self.other()
        if counted is None or optimizer is counted or optimizer is other:
            self.optimizer, self.other = self.optimizer if optimizer is counted else weakref.ref(optimizer), None
            return True
        self.other = weakref.ref(optimizer)
        return False

    def replace(self, owner, name, make):
        original = getattr(owner, name, None)
        if original is not None and (owner, name) not in self.replaced:
            self.replaced.add((owner, name))
            made = functools.wraps(original)(make(original))
            if isinstance(owner, type(sys)):
                made.__module__ = owner.__name__  # where pickle finds it
            setattr(owner, name, made)

    def replace_collectives(self):
        from torch import distributed
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import dataloader
        for name, functions in _COLLECTIVES.items():
            for function in functions:
                self.replace(distributed, function, functools.partial(self.waiting, name))
        self.replace(DistributedDataParallel, "_sync_buffers", functools.partial(self.waiting, "buffers"))
        for iterator in dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter:
            self.replace(iterator, "_next_data", self.loading)  # not __next__, whose warning names its caller

    def replace_save(self):
        self.replace(self.torch, "save", self.saving)

    def reports_here(self):
        """torch.compile() shall see the original functions only."""
        return not (self.torch.compiler.is_compiling() or self.channel._words is None or self.off) and threading.get_ident() == self.thread

    def around(self, function, begin, end):
        """`function`, and what `begin` returns before it, if that is not None, for `end` after it. Its frame is in no traceback."""
        def call(*args, **options):
            if is_compiling():
                return function(*args, **options)
            before = begin(args, options)
            try:
                return function(*args, **options)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                if before is not None:
                    end(before)
        return call

    def waiting(self, name, function):
        import inspect  # slow to import, and PyTorch has done it
        parameters = list(inspect.signature(function).parameters)
        asynchronous = parameters.index("async_op") if "async_op" in parameters else len(parameters)

        def begin(args, options):
            blocks = not options.get("async_op") and args[asynchronous:asynchronous + 1] != (True,)
            reports = blocks and self.collectives and self.reports_here()
            return self.channel.begin_wait(message(name, args, options)) if reports else None
        return self.around(function, begin, self.channel.beat)

    def loading(self, function):
        channel, beat_at = self.channel, self.channel._BEAT

        def load(iterator):
            words, reports = channel._words, False
            try:
                # Rarely true: after a step the beat is LOAD already.
                if words is not None and words[beat_at] & 0xFF == channel.COMPUTE and self.collectives and self.reports_here():
                    reports = True
                    channel.beat(channel.LOAD)
                return function(iterator)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                if reports:
                    channel.beat(channel.COMPUTE)
        return load

    def during(self, phase, function):
        def begin(args, options):
            if not self.saves or not self.reports_here() or self.beat_now() == self.channel.WAIT or self.phase_now() == phase:
                return None
            before = self.phase_now(), self.beat_now()
            self.channel.phase(phase)
            return before

        def end(before):
            self.channel._write_phase(before[0])
            self.channel.beat(before[1])
        return self.around(function, begin, end)

    def evaluating(self, function):
        return self.during(self.channel.EVALUATING, function)

    def saving(self, function):
        save = self.during(self.channel.SAVING, function)

        def save_file(*args, **options):
            step = self.channel._words[self.channel._STEP] if self.unasked and self.reports_here() else None
            try:
                result = save(*args, **options)
            except BaseException as error:
                leave_traceback(error)
                raise
            if step is not None and not any(isinstance(each, io.BytesIO) for each in (*args, *options.values())):
                self.channel._write(self.channel._FILE, step)
            return result
        return save_file


def message(name, args, options):
    """With its other end, where it is known: "recv 3" tells who has not sent."""
    if name not in ("recv", "send"):
        return name
    other = options.get("src" if name == "recv" else "dst", args[1] if len(args) > 1 else None)
    return f"{name} {other}" if isinstance(other, int) and 0 <= other < 1000 else name  # 8 characters are kept


def leave_traceback(error):
    """Our frame is none of the script's."""
    error.__traceback__ = error.__traceback__.tb_next


def tensors(value, kind):
    """In what a forward pass returns, as DistributedDataParallel looks for them."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one, kind)
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one, kind)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors(getattr(value, name), kind)


def watch_all(mode):
    """By ddprun --watch, when torch has been imported."""
    from ddprun import channel
    if channel._page is None and channel._VARIABLE in os.environ:
        _record.open_once()
        channel._watch = Watch(channel)
        channel._watch.begin_unasked({"see": 2, "act": 3}[mode])
        from ddprun import _trainers
        _trainers.follow_imported()
