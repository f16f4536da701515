/* As it was before it had beats, without notices: programs that were built with it go on working. Its comments are in
 * worker_channel.h. */
#ifndef DDPRUN_WORKER_CHANNEL_H
#define DDPRUN_WORKER_CHANNEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for strict -std=c11; then include this file first */
#endif

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DDPRUN_CHANNEL_VARIABLE "DDPRUN_CHANNEL_FD"
#define DDPRUN_CHANNEL_MAGIC 0x6c6e6863706464ULL /* "ddpchnl" */
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

enum ddprun_request_kind { DDPRUN_REQUEST_NONE = 0, DDPRUN_REQUEST_SAVE = 1, DDPRUN_REQUEST_LEAVE = 2 };

struct ddprun_request {
  enum ddprun_request_kind kind;
  uint64_t step; /* SAVE: save at the end of this step, the same one on every rank, then exit */
};

struct ddprun_channel_record {
  uint64_t first, second;
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  uint64_t check;
  uint64_t unused[4]; /* one cache line per record */
};

struct ddprun_channel_page {
  uint64_t magic;
  uint32_t version, bytes;
  uint64_t unused0[6];
  uint32_t attached;    /* counts the calls of attach that took the lock; a futex */
  uint32_t lock_offset; /* from the page's start to the lock's word with its owner's thread id; 0: never taken */
  uint32_t notices;     /* counts the calls of notice; a futex */
  uint32_t unused1[13];
  char lock[128]; /* a robust pthread_mutex_t, held by the worker's main thread as long as it lives */
  struct ddprun_channel_record step;       /* the step's number; steps reported since the page was made */
  struct ddprun_channel_record phase;      /* enum ddprun_phase; 0 */
  struct ddprun_channel_record snapshot;   /* the step it holds; 0 */
  struct ddprun_channel_record throughput; /* samples per second, a double's bits; 0 */
  struct ddprun_channel_record request;    /* enum ddprun_request_kind; step */
  struct ddprun_channel_record notice;     /* the signal's number; 0 */
};

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

static inline int ddprun_channel_read_(const struct ddprun_channel_record* record, struct ddprun_channel_record* out) {
  out->first = __atomic_load_n(&record->first, __ATOMIC_RELAXED);
  out->second = __atomic_load_n(&record->second, __ATOMIC_RELAXED);
  out->time_ns = __atomic_load_n(&record->time_ns, __ATOMIC_RELAXED);
  out->check = __atomic_load_n(&record->check, __ATOMIC_RELAXED);
  return out->check == ddprun_channel_check_(out->first, out->second, out->time_ns);
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

static inline int ddprun_channel_attach(void) {
  if (!ddprun_channel_page_) ddprun_channel_map_();
  if (!ddprun_channel_page_) return 0;
  if (syscall(SYS_gettid) == getpid() && !ddprun_channel_take_lock_()) ddprun_channel_detach_();
  return ddprun_channel_page_ != NULL;
}

static inline void ddprun_channel_phase(enum ddprun_phase phase) {
  if (ddprun_channel_page_) ddprun_channel_write_(&ddprun_channel_page_->phase, (uint64_t)phase, 0);
}

static inline void ddprun_channel_step(uint64_t step) {
  if (!ddprun_channel_page_) return;
  ddprun_channel_write_(&ddprun_channel_page_->step, step,
                        __atomic_load_n(&ddprun_channel_page_->step.second, __ATOMIC_RELAXED) + 1);
}

static inline void ddprun_channel_snapshot(uint64_t step) {
  if (ddprun_channel_page_) ddprun_channel_write_(&ddprun_channel_page_->snapshot, step, 0);
}

static inline void ddprun_channel_throughput(double samples_per_s) {
  uint64_t bits;
  memcpy(&bits, &samples_per_s, sizeof bits);
  if (ddprun_channel_page_) ddprun_channel_write_(&ddprun_channel_page_->throughput, bits, 0);
}

static inline struct ddprun_request ddprun_channel_request(void) {
  struct ddprun_request request = {DDPRUN_REQUEST_NONE, 0};
  struct ddprun_channel_record record;
  if (!ddprun_channel_page_ || !ddprun_channel_read_(&ddprun_channel_page_->request, &record)) return request;
  if (record.first == DDPRUN_REQUEST_SAVE || record.first == DDPRUN_REQUEST_LEAVE) {
    request.kind = (enum ddprun_request_kind)record.first;
    request.step = record.second;
  }
  return request;
}

#endif
