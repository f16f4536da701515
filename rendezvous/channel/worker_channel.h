/* The worker channel: a worker reports to the agent that started it, and the agent sends it requests. Plain C11 or C++;
 * this file is all you need (worker_channel.py does the same in Python).
 *
 *   ddprun_channel_attach();                             // once, in the main thread, after the program has been exec'd
 *   ddprun_channel_handle_signals();                     // a SIGTERM asks all ranks to save, and ends nobody
 *   ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
 *   for (step = first; ...; ++step) {
 *     ...
 *     ddprun_channel_step(step);                         // some 30 ns: cheap enough for every step
 *     struct ddprun_request request = ddprun_channel_request();
 *     if (request.kind == DDPRUN_REQUEST_LEAVE) return;  // without saving: the job stops because of a failure
 *     if (request.kind == DDPRUN_REQUEST_SAVE && step >= request.step) {
 *       save(step); ddprun_channel_snapshot(step); return; }
 *     if (request.kind == DDPRUN_REQUEST_SNAPSHOT && step >= request.step) {  // ddprun ctl snapshot
 *       save(step); ddprun_channel_snapshot(step); }
 *   }
 *
 * Beats tell the culprit of a hang from its victims, and a slow loader from slow computing:
 *
 *   ddprun_channel_beat(DDPRUN_BEAT_LOAD);              // less than 100 ns each
 *   batch = next_batch();
 *   ddprun_channel_beat(DDPRUN_BEAT_COMPUTE);
 *   ...
 *   enum ddprun_beat before = ddprun_channel_wait("reduce");
 *   all_reduce(gradients);                              // blocks until all ranks have called it
 *   ddprun_channel_beat(before);
 *
 * Everything is optional. Where nothing was attached, because no ddprun started the program or it is an older one, the
 * functions do nothing and return at once. If a worker that attached dies, the agent detects it in 0.1 ms; otherwise
 * the kernel reports it only after it has freed the worker's memory, 50 to 100 ms per GB.
 *
 * The channel belongs to one process at a time, the one that attached: in a child of fork() the functions do nothing. A
 * program that calls exec() attaches again. Different kinds of report may come from different threads; if two threads
 * send the same kind at the same moment, one report may be lost. Beats and phases are those of one thread, the one that
 * trains. No call waits, allocates or locks; all but attach may be made from a signal handler.
 *
 * Schedulers that preempt a job often send SIGTERM to every process of it. ddprun_channel_handle_signals() makes that a
 * notice to ddprun instead of the worker's end: all ranks are then asked to save.
 *
 * The page behind it is a memfd of 4096 bytes; DDPRUN_CHANNEL_FD holds its descriptor. A record in it holds two values,
 * a time and a checksum of the three: a reader detects a half-written record by its wrong checksum. That needs no order
 * between the stores, so that Python can write records, too. */
#ifndef DDPRUN_WORKER_CHANNEL_H
#define DDPRUN_WORKER_CHANNEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for strict -std=c11; then include this file first */
#endif

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDPRUN_CHANNEL_VARIABLE "DDPRUN_CHANNEL_FD"
#define DDPRUN_IN_PROCESS_VARIABLE "DDPRUN_IN_PROCESS" /* 1: a worker that has lost a peer may park */
#define DDPRUN_PLACE_BYTES 3072u
#define DDPRUN_PREEMPT_SIGNALS_VARIABLE "DDPRUN_PREEMPT_SIGNALS" /* numbers, "15,10"; not set: 15 */
#define DDPRUN_CHANNEL_MAGIC 0x6c6e6863706464ULL                 /* "ddpchnl" */
#define DDPRUN_CHANNEL_VERSION 1u
#define DDPRUN_CHANNEL_BYTES 4096u
#define DDPRUN_CHANNEL_MIX 0x9E3779B97F4A7C15ULL /* any odd number with well mixed bits */

enum ddprun_phase {
  DDPRUN_PHASE_UNKNOWN = 0,
  DDPRUN_PHASE_LOADING = 1, /* program, data, snapshot */
  DDPRUN_PHASE_JOINING = 2, /* joining the process group */
  DDPRUN_PHASE_TRAINING = 3,
  DDPRUN_PHASE_EVALUATING = 4,
  DDPRUN_PHASE_SAVING = 5,
  DDPRUN_PHASE_FINISHING = 6
};

/* What the worker is doing within a phase. */
enum ddprun_beat {
  DDPRUN_BEAT_NONE = 0, /* a phase other than training: not counted */
  DDPRUN_BEAT_LOAD = 1, /* waiting for data */
  DDPRUN_BEAT_COMPUTE = 2,
  DDPRUN_BEAT_WAIT = 3 /* in a collective, until the other ranks have done their part */
};

enum ddprun_request_kind {
  DDPRUN_REQUEST_NONE = 0,
  DDPRUN_REQUEST_SAVE = 1,
  DDPRUN_REQUEST_LEAVE = 2,
  DDPRUN_REQUEST_SNAPSHOT = 3
};

struct ddprun_request {
  enum ddprun_request_kind kind;
  /* SAVE: save at the end of this step, the same one on every rank, then exit. SNAPSHOT: the same without the exit; it
   * is over once a snapshot of this step or a later one is reported. */
  uint64_t step;
};

struct ddprun_channel_record {
  uint64_t first, second;
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  uint64_t check;
  uint64_t unused[4]; /* one cache line per record */
};

/* The current beat, and how long the earlier ones took: one cache line, too. */
struct ddprun_channel_beat_record {
  uint64_t first;       /* enum ddprun_beat | number of waits begun since the page was made << 8 */
  uint64_t second;      /* while waiting up to 8 ASCII characters of the collective's name, then zeros */
  uint64_t time_ns;     /* when the beat began: CLOCK_MONOTONIC */
  uint64_t check;       /* of these three */
  uint64_t spent_ns[3]; /* in LOAD, COMPUTE and WAIT since the page was made, without the current beat */
  uint64_t check_of_all;
};

/* How long the phases took: two cache lines. */
struct ddprun_channel_phase_times {
  uint64_t phase;       /* enum ddprun_phase, the current one */
  uint64_t time_ns;     /* when it began: CLOCK_MONOTONIC */
  uint64_t attached_ns; /* when the program attached, or got its place in the round; 0: it has not */
  uint64_t work_ns;     /* when TRAINING or EVALUATING began for the first time; 0: not yet */
  uint64_t spent_ns[6]; /* in LOADING and each phase after it, since work_ns, without the current one */
  uint64_t check;       /* of these ten */
  uint64_t unused[5];
};

/* What people ask about training: one cache line. */
struct ddprun_channel_outlook {
  uint64_t loss;        /* a double's bits; not a number: none */
  uint64_t loss_step;   /* the step it is of */
  uint64_t total_steps; /* the number of the step that is the last one; 0: not known */
  uint64_t time_ns;     /* CLOCK_MONOTONIC */
  uint64_t check;       /* of these four */
  uint64_t unused[3];
};

/* All numbers in the machine's byte order. The agent writes the first line and `request`, the worker all else. */
struct ddprun_channel_page {
  uint64_t magic;
  uint32_t version, bytes;
  uint64_t unused0[6];
  uint32_t attached;    /* counts the calls of attach that took the lock; a futex */
  uint32_t lock_offset; /* from the page's start to the lock's word with its owner's thread id; 0: never taken */
  uint32_t notices;     /* counts the calls of notice; a futex */
  /* 1: phases and beats are inferred, as by Python's watch(): a pause between them may be anything. 3: and the program
   * knows nothing of it, as under ddprun --watch. 2: and nothing is decided by them, as under --watch=see. */
  uint32_t inferred;
  uint32_t unused1[12];
  char lock[128]; /* a robust pthread_mutex_t, held by the worker's main thread as long as it lives */
  struct ddprun_channel_record step;  /* the step's number; steps reported since the page was made */
  struct ddprun_channel_record phase; /* enum ddprun_phase; 0 */
  /* The step it holds; its bytes, 0: not told. Its unused words are a record, too: the step after which Python's
   * watch() has last seen a file written, which may hold anything; 0. */
  struct ddprun_channel_record snapshot;
  struct ddprun_channel_record throughput; /* samples per second, a double's bits; 0 */
  struct ddprun_channel_record request;    /* enum ddprun_request_kind; step */
  struct ddprun_channel_record notice;     /* the signal's number; 0 */
  struct ddprun_channel_beat_record beat;  /* not in the first version of this header; nobody else used these bytes */
  /* Nor these: a worker that may park says so, and counts how often it has; the agent counts the places it has given.
   */
  uint32_t may_park, parked;
  uint32_t seated; /* a futex */
  uint32_t place_bytes;
  uint32_t unused2[12];
  char place[DDPRUN_PLACE_BYTES]; /* "NAME=VALUE", each with a zero at its end: the agent's, before `seated` grows */
  /* Nor these. */
  struct ddprun_channel_phase_times phase_times;
  struct ddprun_channel_record first_step; /* the number of the first step that was reported; 0 */
  struct ddprun_channel_outlook outlook;
};

/* Shared by all files and libraries of the program that include this. */
__attribute__((weak)) struct ddprun_channel_page* ddprun_channel_page_ = NULL;
__attribute__((weak)) int ddprun_channel_fork_hook_ = 0;

static inline uint64_t ddprun_channel_check_(uint64_t first, uint64_t second, uint64_t time_ns) {
  uint64_t check = (DDPRUN_CHANNEL_MIX ^ first) * DDPRUN_CHANNEL_MIX;
  check = (check ^ second) * DDPRUN_CHANNEL_MIX;
  return (check ^ time_ns) * DDPRUN_CHANNEL_MIX;
}

static inline void ddprun_channel_write_(struct ddprun_channel_record* record, uint64_t first, uint64_t second) {
  struct timespec now;
  uint64_t time_ns;
  clock_gettime(CLOCK_MONOTONIC, &now);
  time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  __atomic_store_n(&record->first, first, __ATOMIC_RELAXED);
  __atomic_store_n(&record->second, second, __ATOMIC_RELAXED);
  __atomic_store_n(&record->time_ns, time_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&record->check, ddprun_channel_check_(first, second, time_ns), __ATOMIC_RELAXED);
}

/* 0 if there is none, or one that is just being written. */
static inline int ddprun_channel_read_(const struct ddprun_channel_record* record, struct ddprun_channel_record* out) {
  out->first = __atomic_load_n(&record->first, __ATOMIC_RELAXED);
  out->second = __atomic_load_n(&record->second, __ATOMIC_RELAXED);
  out->time_ns = __atomic_load_n(&record->time_ns, __ATOMIC_RELAXED);
  out->check = __atomic_load_n(&record->check, __ATOMIC_RELAXED);
  return out->check == ddprun_channel_check_(out->first, out->second, out->time_ns);
}

/* Of a beat: with fewer operations, as they are what a beat costs in Python. */
static inline uint64_t ddprun_channel_beat_check_(uint64_t first, uint64_t second, uint64_t time_ns) {
  return ((DDPRUN_CHANNEL_MIX ^ first) * DDPRUN_CHANNEL_MIX + second) * DDPRUN_CHANNEL_MIX + time_ns;
}

static inline uint64_t ddprun_channel_check_of_all_(uint64_t check, const uint64_t* spent_ns) {
  return ((check ^ spent_ns[0]) * DDPRUN_CHANNEL_MIX + spent_ns[1]) * DDPRUN_CHANNEL_MIX + spent_ns[2];
}

/* Only the worker writes the record, so this reads its own values. */
static inline void ddprun_channel_write_beat_(uint64_t first, uint64_t second) {
  struct ddprun_channel_beat_record* record = &ddprun_channel_page_->beat;
  const uint64_t kind = __atomic_load_n(&record->first, __ATOMIC_RELAXED) & 0xff;
  const uint64_t since = __atomic_load_n(&record->time_ns, __ATOMIC_RELAXED);
  uint64_t spent[3], time_ns, check;
  struct timespec now;
  int i;
  clock_gettime(CLOCK_MONOTONIC, &now);
  time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  for (i = 0; i < 3; ++i) {
    spent[i] = __atomic_load_n(&record->spent_ns[i], __ATOMIC_RELAXED);
    if (kind == (uint64_t)i + DDPRUN_BEAT_LOAD && time_ns > since) spent[i] += time_ns - since;
  }
  check = ddprun_channel_beat_check_(first, second, time_ns);
  __atomic_store_n(&record->first, first, __ATOMIC_RELAXED);
  __atomic_store_n(&record->second, second, __ATOMIC_RELAXED);
  __atomic_store_n(&record->time_ns, time_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&record->check, check, __ATOMIC_RELAXED);
  for (i = 0; i < 3; ++i) __atomic_store_n(&record->spent_ns[i], spent[i], __ATOMIC_RELAXED);
  __atomic_store_n(&record->check_of_all, ddprun_channel_check_of_all_(check, spent), __ATOMIC_RELAXED);
}

/* 0 if there is none, or one that is just being written. */
static inline int ddprun_channel_read_beat_(const struct ddprun_channel_beat_record* record,
                                            struct ddprun_channel_beat_record* out) {
  int i;
  out->first = __atomic_load_n(&record->first, __ATOMIC_RELAXED);
  out->second = __atomic_load_n(&record->second, __ATOMIC_RELAXED);
  out->time_ns = __atomic_load_n(&record->time_ns, __ATOMIC_RELAXED);
  out->check = __atomic_load_n(&record->check, __ATOMIC_RELAXED);
  for (i = 0; i < 3; ++i) out->spent_ns[i] = __atomic_load_n(&record->spent_ns[i], __ATOMIC_RELAXED);
  out->check_of_all = __atomic_load_n(&record->check_of_all, __ATOMIC_RELAXED);
  return out->check == ddprun_channel_beat_check_(out->first, out->second, out->time_ns) &&
         out->check_of_all == ddprun_channel_check_of_all_(out->check, out->spent_ns);
}

static inline uint64_t ddprun_channel_check_of_times_(const struct ddprun_channel_phase_times* times) {
  const uint64_t words[] = {times->phase,       times->time_ns,     times->attached_ns, times->work_ns,
                            times->spent_ns[0], times->spent_ns[1], times->spent_ns[2], times->spent_ns[3],
                            times->spent_ns[4], times->spent_ns[5]};
  uint64_t check = DDPRUN_CHANNEL_MIX;
  size_t i;
  for (i = 0; i < sizeof words / sizeof *words; ++i) check = (check ^ words[i]) * DDPRUN_CHANNEL_MIX;
  return check;
}

static inline void ddprun_channel_copy_times_(const struct ddprun_channel_phase_times* from,
                                              struct ddprun_channel_phase_times* to) {
  const uint64_t* in = (const uint64_t*)(const void*)from;
  uint64_t* out = (uint64_t*)(void*)to;
  size_t i;
  for (i = 0; i <= offsetof(struct ddprun_channel_phase_times, check) / sizeof *in; ++i)
    __atomic_store_n(&out[i], __atomic_load_n(&in[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* 0 if there are none, or they are just being written. */
static inline int ddprun_channel_read_times_(const struct ddprun_channel_phase_times* times,
                                             struct ddprun_channel_phase_times* out) {
  ddprun_channel_copy_times_(times, out);
  return out->attached_ns != 0 && out->check == ddprun_channel_check_of_times_(out);
}

/* A phase begins. Only the worker writes the record, so this reads its own values. */
static inline void ddprun_channel_write_times_(uint64_t phase) {
  struct ddprun_channel_phase_times times;
  struct timespec now;
  uint64_t time_ns;
  clock_gettime(CLOCK_MONOTONIC, &now);
  time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  ddprun_channel_copy_times_(&ddprun_channel_page_->phase_times, &times);
  if (times.work_ns && times.phase >= DDPRUN_PHASE_LOADING && times.phase <= DDPRUN_PHASE_FINISHING &&
      time_ns > times.time_ns)
    times.spent_ns[times.phase - DDPRUN_PHASE_LOADING] += time_ns - times.time_ns;
  if (!times.attached_ns) times.attached_ns = time_ns;
  if (!times.work_ns && (phase == DDPRUN_PHASE_TRAINING || phase == DDPRUN_PHASE_EVALUATING)) times.work_ns = time_ns;
  times.phase = phase;
  times.time_ns = time_ns;
  times.check = ddprun_channel_check_of_times_(&times);
  ddprun_channel_copy_times_(&times, &ddprun_channel_page_->phase_times);
}

static inline uint64_t ddprun_channel_check_of_outlook_(const struct ddprun_channel_outlook* outlook) {
  return (ddprun_channel_check_(outlook->loss, outlook->loss_step, outlook->total_steps) ^ outlook->time_ns) *
         DDPRUN_CHANNEL_MIX;
}

/* 0 if there is none, or it is just being written. */
static inline int ddprun_channel_read_outlook_(const struct ddprun_channel_outlook* outlook,
                                               struct ddprun_channel_outlook* out) {
  out->loss = __atomic_load_n(&outlook->loss, __ATOMIC_RELAXED);
  out->loss_step = __atomic_load_n(&outlook->loss_step, __ATOMIC_RELAXED);
  out->total_steps = __atomic_load_n(&outlook->total_steps, __ATOMIC_RELAXED);
  out->time_ns = __atomic_load_n(&outlook->time_ns, __ATOMIC_RELAXED);
  out->check = __atomic_load_n(&outlook->check, __ATOMIC_RELAXED);
  return out->time_ns != 0 && out->check == ddprun_channel_check_of_outlook_(out);
}

static inline void ddprun_channel_write_outlook_(uint64_t loss, uint64_t loss_step, uint64_t total_steps) {
  struct ddprun_channel_outlook* outlook = &ddprun_channel_page_->outlook;
  struct ddprun_channel_outlook out;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  out.loss = loss;
  out.loss_step = loss_step;
  out.total_steps = total_steps;
  out.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  __atomic_store_n(&outlook->loss, out.loss, __ATOMIC_RELAXED);
  __atomic_store_n(&outlook->loss_step, out.loss_step, __ATOMIC_RELAXED);
  __atomic_store_n(&outlook->total_steps, out.total_steps, __ATOMIC_RELAXED);
  __atomic_store_n(&outlook->time_ns, out.time_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&outlook->check, ddprun_channel_check_of_outlook_(&out), __ATOMIC_RELAXED);
}

static inline void ddprun_channel_detach_(void) {
  if (ddprun_channel_page_) munmap(ddprun_channel_page_, DDPRUN_CHANNEL_BYTES);
  ddprun_channel_page_ = NULL;
}

static inline void ddprun_channel_map_(void) {
  const char* text = getenv(DDPRUN_CHANNEL_VARIABLE);
  char* end = NULL;
  const long fd = text ? strtol(text, &end, 10) : -1;
  struct stat status;
  struct ddprun_channel_page* page;
  if (fd < 0 || fd > INT_MAX || end == text || *end) return;
  if (fstat((int)fd, &status) != 0 || status.st_size != (off_t)DDPRUN_CHANNEL_BYTES) return; /* now another file's */
  page = (struct ddprun_channel_page*)mmap(NULL, DDPRUN_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
  if (page == MAP_FAILED) return;
  if (page->magic != DDPRUN_CHANNEL_MAGIC || page->version != DDPRUN_CHANNEL_VERSION ||
      page->bytes != DDPRUN_CHANNEL_BYTES) {
    munmap(page, DDPRUN_CHANNEL_BYTES);
    return;
  }
  ddprun_channel_page_ = page;
  if (!ddprun_channel_fork_hook_) ddprun_channel_fork_hook_ = pthread_atfork(NULL, NULL, ddprun_channel_detach_) == 0;
}

/* The C library does not document where it keeps the owner's thread id: search for ours. */
static inline uint32_t ddprun_channel_lock_word_(uint32_t tid) {
  const uint32_t* words = (const uint32_t*)(const void*)ddprun_channel_page_->lock;
  size_t i;
  for (i = 0; i < sizeof(pthread_mutex_t) / sizeof *words; ++i)
    if ((__atomic_load_n(&words[i], __ATOMIC_RELAXED) & FUTEX_TID_MASK) == tid)
      return (uint32_t)(offsetof(struct ddprun_channel_page, lock) + i * sizeof *words);
  return 0;
}

static inline void ddprun_channel_make_lock_(pthread_mutex_t* lock) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(lock, &kind);
  pthread_mutexattr_destroy(&kind);
}

/* 0 if another living process has it. The kernel marks the lock when its owner dies, before it frees any memory. */
static inline int ddprun_channel_take_lock_(void) {
  struct ddprun_channel_page* page = ddprun_channel_page_;
  pthread_mutex_t* lock = (pthread_mutex_t*)(void*)page->lock;
  const uint32_t tid = (uint32_t)syscall(SYS_gettid);
  int error;
  if (sizeof *lock > sizeof page->lock) return 1; /* no early detection with such a C library; all else works */
  if (page->lock_offset == 0) ddprun_channel_make_lock_(lock);
  error = pthread_mutex_trylock(lock);
  if (error == EOWNERDEAD) error = pthread_mutex_consistent(lock); /* our own, from before an exec */
  if (error != 0) return ddprun_channel_lock_word_(tid) != 0;      /* a second call */
  __atomic_store_n(&page->lock_offset, ddprun_channel_lock_word_(tid), __ATOMIC_RELAXED);
  __atomic_add_fetch(&page->attached, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &page->attached, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  return 1;
}

/* 1 if there is a channel. Outside the main thread it enables all but the early detection of a death; a later call from
 * the main thread adds that. Where the kernel lets only ancestors read a process (Yama), the parent, which is the
 * agent, and what it starts may read this one from now on, to print the stacks of a worker that hangs. */
static inline int ddprun_channel_attach(void) {
  if (!ddprun_channel_page_) ddprun_channel_map_();
  if (!ddprun_channel_page_) return 0;
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0ul, 0ul, 0ul); /* fails harmlessly elsewhere */
#endif
  if (syscall(SYS_gettid) == getpid() && !ddprun_channel_take_lock_()) ddprun_channel_detach_();
  if (ddprun_channel_page_ && !ddprun_channel_page_->phase_times.attached_ns) ddprun_channel_write_times_(0);
  return ddprun_channel_page_ != NULL;
}

static inline enum ddprun_beat ddprun_channel_current_beat(void) {
  uint64_t kind;
  if (!ddprun_channel_page_) return DDPRUN_BEAT_NONE;
  kind = __atomic_load_n(&ddprun_channel_page_->beat.first, __ATOMIC_RELAXED) & 0xff;
  return kind <= DDPRUN_BEAT_WAIT ? (enum ddprun_beat)kind : DDPRUN_BEAT_NONE;
}

/* Reports what the worker does from now on. WAIT within a wait changes nothing; else it begins one without a name. */
static inline void ddprun_channel_beat(enum ddprun_beat beat) {
  uint64_t waits;
  if (!ddprun_channel_page_) return;
  waits = __atomic_load_n(&ddprun_channel_page_->beat.first, __ATOMIC_RELAXED) >> 8;
  if (beat == DDPRUN_BEAT_WAIT && ddprun_channel_current_beat() == DDPRUN_BEAT_WAIT) return;
  ddprun_channel_write_beat_((uint64_t)beat | (waits + (beat == DDPRUN_BEAT_WAIT)) << 8, 0);
}

/* Reports that the worker waits for the other ranks in this collective: pass what it returns, the beat before, to
 * ddprun_channel_beat() when it is over. Within a wait it changes nothing: the outer one's name counts. */
static inline enum ddprun_beat ddprun_channel_wait(const char* collective) {
  const enum ddprun_beat before = ddprun_channel_current_beat();
  uint64_t waits, name = 0;
  size_t length;
  if (!ddprun_channel_page_ || before == DDPRUN_BEAT_WAIT) return before;
  length = strlen(collective);
  memcpy(&name, collective, length < sizeof name ? length : sizeof name);
  waits = __atomic_load_n(&ddprun_channel_page_->beat.first, __ATOMIC_RELAXED) >> 8;
  ddprun_channel_write_beat_(DDPRUN_BEAT_WAIT | (waits + 1) << 8, name);
  return before;
}

/* TRAINING begins with the beat COMPUTE; time in other phases is not counted, but for waits. */
static inline void ddprun_channel_phase(enum ddprun_phase phase) {
  if (!ddprun_channel_page_) return;
  ddprun_channel_write_(&ddprun_channel_page_->phase, (uint64_t)phase, 0);
  ddprun_channel_write_times_((uint64_t)phase);
  ddprun_channel_beat(phase == DDPRUN_PHASE_TRAINING ? DDPRUN_BEAT_COMPUTE : DDPRUN_BEAT_NONE);
}

/* Reports that this step is done. */
static inline void ddprun_channel_step(uint64_t step) {
  uint64_t before;
  if (!ddprun_channel_page_) return;
  before = __atomic_load_n(&ddprun_channel_page_->step.second, __ATOMIC_RELAXED);
  if (before == 0) ddprun_channel_write_(&ddprun_channel_page_->first_step, step, 0);
  ddprun_channel_write_(&ddprun_channel_page_->step, step, before + 1);
}

/* Reports that a snapshot of the state after this step is complete and safe on disk, and how many bytes this rank has
 * written for it. */
static inline void ddprun_channel_snapshot_of(uint64_t step, uint64_t bytes) {
  if (ddprun_channel_page_) ddprun_channel_write_(&ddprun_channel_page_->snapshot, step, bytes);
}

/* The same without its size. */
static inline void ddprun_channel_snapshot(uint64_t step) { ddprun_channel_snapshot_of(step, 0); }

static inline void ddprun_channel_throughput(double samples_per_s) {
  uint64_t bits;
  memcpy(&bits, &samples_per_s, sizeof bits);
  if (ddprun_channel_page_) ddprun_channel_write_(&ddprun_channel_page_->throughput, bits, 0);
}

/* The training loss of this step, as ddprun status and its metrics show it: once a second is enough. */
static inline void ddprun_channel_loss(uint64_t step, double loss) {
  uint64_t bits;
  memcpy(&bits, &loss, sizeof bits);
  if (ddprun_channel_page_)
    ddprun_channel_write_outlook_(bits, step,
                                  __atomic_load_n(&ddprun_channel_page_->outlook.total_steps, __ATOMIC_RELAXED));
}

/* The number of the step that will be the last one. */
static inline void ddprun_channel_total_steps(uint64_t steps) {
  const double none = __builtin_nan("");
  uint64_t bits;
  struct ddprun_channel_outlook now;
  memcpy(&bits, &none, sizeof bits);
  if (!ddprun_channel_page_) return;
  if (!ddprun_channel_read_outlook_(&ddprun_channel_page_->outlook, &now)) now.loss = bits, now.loss_step = 0;
  ddprun_channel_write_outlook_(now.loss, now.loss_step, steps);
}

/* 1 if the agent has asked for a snapshot, and none of that step or a later one was reported since. */
static inline int ddprun_channel_wants_snapshot_(const struct ddprun_channel_record* request) {
  struct ddprun_channel_record done;
  return request->first == DDPRUN_REQUEST_SNAPSHOT &&
         !(ddprun_channel_read_(&ddprun_channel_page_->snapshot, &done) && done.time_ns >= request->time_ns &&
           done.first >= request->second);
}

static inline struct ddprun_request ddprun_channel_request(void) {
  struct ddprun_request request = {DDPRUN_REQUEST_NONE, 0};
  struct ddprun_channel_record record;
  if (!ddprun_channel_page_ || !ddprun_channel_read_(&ddprun_channel_page_->request, &record)) return request;
  if (record.first == DDPRUN_REQUEST_SAVE || record.first == DDPRUN_REQUEST_LEAVE ||
      ddprun_channel_wants_snapshot_(&record)) {
    request.kind = (enum ddprun_request_kind)record.first;
    request.step = record.second;
  }
  return request;
}

/* Under ddprun --in-process: from now on a request to leave is answered by ddprun_channel_park(), and no SIGTERM comes
 * with it. Returns 1 if that is so. */
static inline int ddprun_channel_may_park(void) {
  const char* text = getenv(DDPRUN_IN_PROCESS_VARIABLE);
  if (!ddprun_channel_page_ || !text || strcmp(text, "1") != 0) return 0;
  __atomic_store_n(&ddprun_channel_page_->may_park, 1u, __ATOMIC_RELEASE);
  return 1;
}

/* After a request to leave, with nothing left of the round: waits for a place in the next one, and puts it into the
 * environment. Returns 1 then; while it waits, ddprun may end this process. */
static inline int ddprun_channel_park(void) {
  struct ddprun_channel_page* page = ddprun_channel_page_;
  uint32_t count, bytes;
  char* at;
  if (!page || !page->may_park) return 0;
  count = __atomic_add_fetch(&page->parked, 1u, __ATOMIC_RELEASE);
  __atomic_add_fetch(&page->notices, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &page->notices, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  for (;;) {
    const uint32_t seated = __atomic_load_n(&page->seated, __ATOMIC_ACQUIRE);
    if (seated == count) break;
    syscall(SYS_futex, &page->seated, FUTEX_WAIT, seated, NULL, NULL, 0);
  }
  ddprun_channel_write_times_(0);
  bytes = page->place_bytes;
  if (bytes > DDPRUN_PLACE_BYTES) return 0;
  for (at = page->place; at < page->place + bytes; at += strlen(at) + 1) {
    char* const equals = strchr(at, '=');
    if (!equals) continue;
    *equals = '\0';
    setenv(at, equals + 1, 1);
    *equals = '=';
  }
  return 1;
}

/* Reports that this process got a signal by which a preemption may be announced: ddprun then asks all ranks to save, as
 * if it had got the signal itself. */
static inline void ddprun_channel_notice(int signal) {
  if (!ddprun_channel_page_) return;
  ddprun_channel_write_(&ddprun_channel_page_->notice, (uint64_t)signal, 0);
  __atomic_add_fetch(&ddprun_channel_page_->notices, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &ddprun_channel_page_->notices, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* What the handler does, for programs with a handler of their own: call it there. Before a request the signal is a
 * notice, after a request to save and exit nothing, and after one to leave it ends the process, as ddprun sends it
 * then.
 */
static inline void ddprun_channel_on_signal(int signal) {
  const int error = errno;
  const enum ddprun_request_kind kind = ddprun_channel_request().kind;
  if (kind == DDPRUN_REQUEST_LEAVE || !ddprun_channel_page_) {
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, NULL);
    raise(signal); /* takes effect when the handler returns */
  } else if (kind != DDPRUN_REQUEST_SAVE) {
    ddprun_channel_notice(signal);
  }
  errno = error;
}

/* The signals that announce a preemption in this job, into `signals`; returns how many. */
static inline int ddprun_channel_preempt_signals(int* signals, int most) {
  const char* text = getenv(DDPRUN_PREEMPT_SIGNALS_VARIABLE);
  int count = 0;
  if (!text) text = "15";
  while (*text && count < most) {
    char* end;
    const long number = strtol(text, &end, 10);
    if (end == text) break;
    if (number > 0 && number < NSIG) signals[count++] = (int)number;
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}

/* Handles these signals from now on by ddprun_channel_on_signal(), where the program has no handler; a worker without
 * it ends by them, and what it has done since its last snapshot is lost. Call it after attach, the sooner the better.
 */
static inline void ddprun_channel_handle_signals(void) {
  int signals[8];
  int i, count;
  if (!ddprun_channel_page_) return;
  count = ddprun_channel_preempt_signals(signals, 8);
  for (i = 0; i < count; ++i) {
    struct sigaction before, ours;
    if (sigaction(signals[i], NULL, &before) != 0) continue;
    if ((before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL) continue;
    memset(&ours, 0, sizeof ours);
    ours.sa_handler = ddprun_channel_on_signal;
    ours.sa_flags = SA_RESTART;
    sigaction(signals[i], &ours, NULL);
  }
}

#ifdef __cplusplus
}
#endif

#endif
