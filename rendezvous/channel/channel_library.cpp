// The reports of worker_channel.py that a training step makes, compiled: it loads this library where it finds it, and
// does them itself where not. Called with Python's lock held: through ctypes, or as functions of Python's own, which
// take a fifth of the time.
#include "rendezvous/channel/worker_channel.h"  // first: it needs _GNU_SOURCE

#include <cstddef>
#include <cstdint>

#define DDPRUN_EXPORT extern "C" __attribute__((visibility("default")))

// What is used of Python's stable ABI (docs.python.org/3/c-api/stable.html), the same in each version from 3.7 on: one
// library serves them all, and programs without Python.
struct PyObject;
struct PyMethodDef {
  const char* name;
  PyObject* (*function)(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count);
  int flags;
  const char* documentation;
};
extern "C" {
__attribute__((weak)) PyObject* PyCFunction_NewEx(PyMethodDef* method, PyObject* self, PyObject* module);
__attribute__((weak)) PyObject* PyLong_FromUnsignedLong(unsigned long value);
__attribute__((weak)) PyObject* PyBool_FromLong(long value);
__attribute__((weak)) unsigned long long PyLong_AsUnsignedLongLongMask(PyObject* integer);
__attribute__((weak)) PyObject* PyErr_Occurred();
}

// The page is the caller's, mapped and checked, and stays mapped; null: there is none any more.
DDPRUN_EXPORT void ddprun_channel_v1_use(ddprun_channel_page* page) { ddprun_channel_page_ = page; }

// As worker_channel.py's beat(): returns the beat before. `name`: up to 8 characters of a wait's collective.
DDPRUN_EXPORT unsigned ddprun_channel_v1_beat(unsigned kind, std::uint64_t name) {
  if (!ddprun_channel_page_) return DDPRUN_BEAT_NONE;
  const unsigned before = ddprun_channel_current_beat();
  const bool waits = kind == DDPRUN_BEAT_WAIT;
  if (waits && before == DDPRUN_BEAT_WAIT) return before;
  const std::uint64_t count = __atomic_load_n(&ddprun_channel_page_->beat.first, __ATOMIC_RELAXED) >> 8;
  ddprun_channel_write_beat_(kind | (count + (waits ? 1 : 0)) << 8, waits ? name : 0);
  return before;
}

// `more`: by how much the number of reported steps grows.
DDPRUN_EXPORT void ddprun_channel_v1_step(std::uint64_t step, unsigned more) {
  if (!ddprun_channel_page_) return;
  const std::uint64_t steps = __atomic_load_n(&ddprun_channel_page_->step.second, __ATOMIC_RELAXED);
  ddprun_channel_write_(&ddprun_channel_page_->step, step, steps + more);
}

// Compiled, as a handler of Python's runs only between two of its instructions: a rank in a call that waits for a dead
// peer would not end by SIGTERM.
DDPRUN_EXPORT void ddprun_channel_v1_handle_signals() {
  static bool hooked = false;  // in a child the page is not ours, and the signals end it as they do by default
  if (!hooked) hooked = pthread_atfork(nullptr, nullptr, [] { ddprun_channel_page_ = nullptr; }) == 0;
  if (hooked) ddprun_channel_handle_signals();
}

DDPRUN_EXPORT void ddprun_channel_v1_leave_signals() {
  int signals[8];
  const int count = ddprun_channel_preempt_signals(signals, 8);
  for (int i = 0; i < count; ++i) {
    struct sigaction now = {};
    if (sigaction(signals[i], nullptr, &now) != 0 || now.sa_handler != ddprun_channel_on_signal) continue;
    now = {};
    now.sa_handler = SIG_DFL;
    sigaction(signals[i], &now, nullptr);
  }
}

namespace {

constexpr int kFastCall = 0x80;  // METH_FASTCALL

// Up to two integers; those that are missing are 0. False: one is none, and Python knows the error.
bool read_integers(PyObject* const* arguments, std::ptrdiff_t count, std::uint64_t (&out)[2]) {
  for (std::ptrdiff_t at = 0; at < 2; ++at) {
    out[at] = at < count ? PyLong_AsUnsignedLongLongMask(arguments[at]) : 0;
    if (PyErr_Occurred()) return false;
  }
  return true;
}

// beat(kind, name=0)
PyObject* python_beat(PyObject* /*self*/, PyObject* const* arguments, std::ptrdiff_t count) {
  std::uint64_t given[2];
  if (!read_integers(arguments, count, given)) return nullptr;
  return PyLong_FromUnsignedLong(ddprun_channel_v1_beat(static_cast<unsigned>(given[0]), given[1]));
}

// step(number, more)
PyObject* python_step(PyObject* /*self*/, PyObject* const* arguments, std::ptrdiff_t count) {
  std::uint64_t given[2];
  if (!read_integers(arguments, count, given)) return nullptr;
  ddprun_channel_v1_step(given[0], static_cast<unsigned>(given[1]));
  return PyBool_FromLong(1);
}

// computes(): a forward pass that trains begins. False, and nothing is reported, in another phase.
PyObject* python_computes(PyObject* /*self*/, PyObject* const* /*arguments*/, std::ptrdiff_t /*count*/) {
  const bool trains = ddprun_channel_page_ &&
                      __atomic_load_n(&ddprun_channel_page_->phase.first, __ATOMIC_RELAXED) == DDPRUN_PHASE_TRAINING;
  if (trains) ddprun_channel_v1_beat(DDPRUN_BEAT_COMPUTE, 0);
  return PyBool_FromLong(trains);
}

// stepped(inferred): one more step is done, and what comes next is loading. False, and nothing is reported, where the
// page's `inferred` is another one by now.
PyObject* python_stepped(PyObject* /*self*/, PyObject* const* arguments, std::ptrdiff_t count) {
  std::uint64_t given[2];
  if (!read_integers(arguments, count, given)) return nullptr;
  if (!ddprun_channel_page_ || ddprun_channel_page_->inferred != given[0]) return PyBool_FromLong(0);
  ddprun_channel_v1_step(__atomic_load_n(&ddprun_channel_page_->step.first, __ATOMIC_RELAXED) + 1, 1);
  if (ddprun_channel_current_beat() != DDPRUN_BEAT_NONE) ddprun_channel_v1_beat(DDPRUN_BEAT_LOAD, 0);
  return PyBool_FromLong(1);
}

PyMethodDef python_functions[] = {
    {"beat", python_beat, kFastCall, nullptr},
    {"step", python_step, kFastCall, nullptr},
    {"computes", python_computes, kFastCall, nullptr},
    {"stepped", python_stepped, kFastCall, nullptr},
};

}  // namespace

// A function of Python's, by its place in the table above; null without an error: there is none.
DDPRUN_EXPORT PyObject* ddprun_channel_v2_function(unsigned at) {
  const bool has_python = PyCFunction_NewEx && PyLong_FromUnsignedLong && PyBool_FromLong &&
                          PyLong_AsUnsignedLongLongMask && PyErr_Occurred;  // not in PyPy
  if (!has_python || at >= sizeof python_functions / sizeof *python_functions) return nullptr;
  return PyCFunction_NewEx(&python_functions[at], nullptr, nullptr);
}
