# What a Python template of `ddprun --prefork` runs before its script: Python imports a module of this name at the end of
# its own start, before it reads the script. Here the libraries are imported; then each fork goes on as if this file did
# not exist, and Python itself starts the script, module or folder. agent/prefork/ has the other side, and
# rendezvous/prefork/template_process.cpp does the same for C++.
import os
import sys

_LOST = 127  # as a worker that could not be started
_USUAL = ["torch", "torch._dynamo", "torch.optim", "torch.distributed", "torch.nn.parallel"]


def _serve(number, extra, learned_file):
    import atexit
    import ctypes
    import fcntl
    import gc
    import importlib
    import signal
    import socket
    import struct
    import threading
    import time

    version, pdeathsig, prefer_nodes = b"1", 1, 5
    libc = ctypes.CDLL(None)
    agent = socket.socket(fileno=number)
    at_start = set(sys.modules)

    def problems_of_import(name, must_exist):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if must_exist or not error.name or not (name + ".").startswith(error.name + "."):
                return [f"{name}: {error}"]
        except Exception as error:
            return [f"{name}: {type(error).__name__}: {error}"]
        return []

    # What the script has imported last time, one module per line. A '!' before it: it cannot be imported here.
    def learned():
        try:
            with open(learned_file, encoding="utf-8") as file:
                return [line for line in file.read().splitlines() if line]
        except (OSError, UnicodeDecodeError):
            return []

    def save_learned(lines):
        partial = f"{learned_file}.writing.{os.urandom(8).hex()}"
        try:
            with open(partial, "x", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
            os.replace(partial, learned_file)
            return True
        except OSError as error:
            os.write(2, f"ddprun: cannot write what was imported into {learned_file}: {error.strerror}.\n".encode())
            if os.path.exists(partial):
                os.unlink(partial)
            return False

    def alone():
        return len(os.listdir("/proc/self/task")) == 1

    def import_learned():
        if not alone():
            return  # no learned module is the cause
        for name in [name for name in learned() if name not in sys.modules]:
            if name.startswith("!") or beside_script(name.partition(".")[0]):
                continue
            try:
                failed = bool(problems_of_import(name, True))
            except BaseException:  # a module that exits
                failed = True
            if alone() and not failed:
                continue
            saved = save_learned([f"!{line}" if line == name else line for line in learned()])
            if not alone():  # only another start is rid of a thread
                os.environ["DDPRUN_TEMPLATE"] = str(number)
                os.environ["DDPRUN_TEMPLATE_IMPORT"] = ",".join(extra)
                os.environ["DDPRUN_TEMPLATE_LEARN"] = learned_file if saved else ""
                os.execv(sys.executable, sys.orig_argv)

    def learn():
        # Of installed packages only: a script's own modules may change at any time, and do anything.
        import sysconfig
        folders = tuple(f"{sysconfig.get_paths()[kind]}/" for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
        known, names = set(learned()), []
        for name, module in list(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            if name in at_start or f"!{name}" in known or getattr(spec, "name", None) != name:
                continue
            if str(spec.origin).startswith(folders) and not any(mark in name for mark in "!,"):
                names.append(name)
        bad = sorted(name for name in known if name.startswith("!"))
        if set(names) - known:
            save_learned([*bad, *names])

    def beside_script(name):
        script = os.path.realpath(sys.argv[0]) if sys.argv[0] != "-m" else os.getcwd()
        folder = script if os.path.isdir(script) else os.path.dirname(script)
        return [file for file in (f"{folder}/{name}.py", f"{folder}/{name}/__init__.py") if os.path.exists(file)]

    def hidden_file():
        # A script would find it in its own folder, had another module of that name not been imported already.
        for name in sorted({name.partition(".")[0] for name in set(sys.modules) - at_start}):
            known = getattr(sys.modules.get(name), "__file__", None) or ""  # may be in a ZIP file, or no file at all
            for file in beside_script(name):
                if not (os.path.exists(known) and os.path.samefile(file, known)):
                    return file
        return ""

    def say_hello(problems):
        # With the files of all modules: when one changes, the agent makes a new template.
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        with open(os.memfd_create("ddprun-template", os.MFD_CLOEXEC), "w+b") as out:
            out.write(b"".join(os.fsencode(file) + b"\0" for file in files if isinstance(file, str)))
            out.flush()
            text = "\0".join([str(os.getpid()), hidden_file(), *problems])
            socket.send_fds(agent, [os.fsencode(text)[:60000]], [out.fileno()])

    def moved(fd):
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
        os.close(fd)
        return high

    def numbers(field):
        return [int(number) for number in field.split(b",")] if field else []

    def become_child_of(parent):
        # PDEATHSIG is about the parent of the moment: set before this it would be the death of the process between.
        while os.getppid() != parent:
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                os._exit(_LOST)
            time.sleep(0.00005)
        libc.prctl(pdeathsig, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(_LOST)

    def bind(cpus, nodes):
        set_mempolicy = {"x86_64": 238, "aarch64": 237}.get(os.uname().machine)
        if nodes and set_mempolicy:
            words = (ctypes.c_ulong * (max(nodes) // 64 + 1))()
            for node in nodes:
                words[node // 64] |= 1 << node % 64
            libc.syscall(set_mempolicy, prefer_nodes, words, ctypes.c_ulong(64 * len(words) + 1))
        try:
            if cpus:
                os.sched_setaffinity(0, cpus)
        except OSError as error:
            return error.errno
        return 0

    def show_in_proc(arguments, environment):
        # ps and /proc/<pid>/environ show these instead of the template's. Kernels that do not allow it show the template's.
        pr_set_mm, pr_set_mm_map, no_file = 35, 14, 0xFFFFFFFF
        libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
        places = []
        for strings in arguments, environment:
            text = b"\0".join([*strings, b""])
            place = libc.malloc(ctypes.c_size_t(len(text) + 1))
            ctypes.memmove(place, text, len(text))
            places += [place, place + len(text)]
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # from the third on, proc_pid_stat(5)
        code, end_code, stack, data, end_data, brk = (int(fields[number - 3]) for number in (26, 27, 28, 45, 46, 47))
        map_ = struct.pack("11QQII", code, end_code, data, end_data, brk, libc.sbrk(ctypes.c_long(0)), stack, *places, 0, 0, no_file)
        libc.prctl(pr_set_mm, pr_set_mm_map, map_, ctypes.c_ulong(len(map_)), ctypes.c_ulong(0))

    def take_place(fields, own, streams):
        become_child_of(int(fields[1]))
        if fields[2]:
            os.setpgid(0, int(fields[2]))
        else:
            os.setsid()
        for fd, target in zip(streams, [0, 1, 2, *numbers(fields[3])]):
            os.dup2(fd, target)
            os.close(fd)
        with socket.socket(fileno=own) as worker:
            worker.send(f"{os.getpid()} {bind(numbers(fields[4]), numbers(fields[5]))}".encode())
            if not worker.recv(1):
                os._exit(_LOST)  # nobody wants it any more

    def become_worker(arguments, environment):
        show_in_proc(arguments, environment)
        arguments = [os.fsdecode(argument) for argument in arguments]
        sys.argv[1:] = arguments[len(arguments) - len(sys.argv) + 1 :]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = arguments
        os.environ.clear()
        for entry in environment:
            name, _, value = entry.partition(b"=")
            os.environb[name] = value
        if learned_file and os.environ.get("LOCAL_RANK") == "0":
            atexit.register(learn)
        atexit.register(gc.unfreeze)  # the last one to run: then modules are taken down as ever
        if hasattr(threading.current_thread(), "_set_native_id"):
            threading.current_thread()._set_native_id()  # CPython leaves the parent's
        # What each process of its own would have drawn for itself.
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        if "torch" in sys.modules:
            sys.modules["torch"].default_generator.seed()

    def fork(fields, own, streams):
        between = os.fork()
        if between:
            for fd in [own, *streams]:
                os.close(fd)
            os.waitpid(between, 0)
            return False  # that the worker's socket closes tells the agent of a fork that failed
        try:
            if os.fork():
                os._exit(0)
            agent.close()
            take_place(fields, own, streams)
        except BaseException:
            os._exit(_LOST)
        end = 7 + int(fields[6])
        become_worker(fields[7:end], fields[end:])
        return True

    problems = [line for name in _USUAL for line in problems_of_import(name, False)]
    problems += [line for name in extra for line in problems_of_import(name, True)]
    if learned_file and hasattr(sys, "orig_argv"):
        import_learned()
    gc.collect()
    gc.freeze()
    say_hello(problems)
    while True:
        text, fds, _, _ = socket.recv_fds(agent, 1, 16)
        if not text:
            os._exit(0)
        fds = [moved(fd) for fd in fds]
        body = os.pread(fds[0], os.fstat(fds[0]).st_size, 0)
        os.close(fds[0])
        fields = body.split(b"\0")[:-1]
        if fields[0] != version:
            os._exit(_LOST)
        if fork(fields, fds[1], fds[2:]):
            return


_number = os.environ.pop("DDPRUN_TEMPLATE")
if _number == "probe":
    ddprun_template = True  # this Python does import it: seen by whoever asked
else:
    _archive = __loader__.archive
    sys.path.remove(_archive)
    sys.path_importer_cache.pop(_archive, None)
    try:
        _serve(
            int(_number),
            [name for name in os.environ.pop("DDPRUN_TEMPLATE_IMPORT", "").split(",") if name],
            os.environ.pop("DDPRUN_TEMPLATE_LEARN", ""),
        )
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(_LOST)  # site would go on with the script
    os.close(int(_archive.rpartition("/")[2]))
    del sys.modules["sitecustomize"]
    import sitecustomize  # the user's own; without one the error that site expects
