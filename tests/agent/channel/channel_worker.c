/* A worker for tests of the worker channel: fills memory, attaches, says that it trains, and then does what it is told.
 *   channel_worker MEGABYTES WORD... */
#include "rendezvous/channel/worker_channel.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void* go_on(void* unused) {
  sleep(60);
  return unused;
}

static void start_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, go_on, NULL);
}

static void report(void) {
  uint64_t step;
  for (step = 1; step <= 1000; ++step) ddprun_channel_step(step);
  ddprun_channel_throughput(1234.5);
  ddprun_channel_snapshot_of(990, 49000000);
  ddprun_channel_total_steps(5000);
  ddprun_channel_loss(1000, 0.25);
  ddprun_channel_phase(DDPRUN_PHASE_SAVING);
}

static void report_for_ever(void) {
  uint64_t step;
  for (step = 1;; ++step) ddprun_channel_step(step);
}

static void beats(void) {
  enum ddprun_beat before;
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
  usleep(20000);
  ddprun_channel_beat(DDPRUN_BEAT_LOAD);
  usleep(40000);
  before = ddprun_channel_wait("barrier");
  ddprun_channel_beat(ddprun_channel_wait("inner"));
  usleep(60000);
  ddprun_channel_beat(before);
  ddprun_channel_wait("a long name");
  ddprun_channel_step(3);
}

static void phases(void) {
  ddprun_channel_phase(DDPRUN_PHASE_SAVING);
  usleep(20000);
  ddprun_channel_phase(DDPRUN_PHASE_EVALUATING);
  usleep(10000);
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
  ddprun_channel_step(40);
  ddprun_channel_step(41);
  ddprun_channel_phase(DDPRUN_PHASE_FINISHING);
}

/* The name says whether the number of waits is odd. */
static void beat_for_ever(void) {
  uint64_t waits;
  for (waits = 1;; ++waits) {
    ddprun_channel_wait(waits % 2 ? "odd" : "even");
    ddprun_channel_beat(DDPRUN_BEAT_LOAD);
  }
}

/* Prints what is asked of it, until it is to leave. */
static void answer(void) {
  for (;;) {
    const struct ddprun_request request = ddprun_channel_request();
    if (request.kind == DDPRUN_REQUEST_SAVE) printf("save at %llu\n", (unsigned long long)request.step);
    if (request.kind == DDPRUN_REQUEST_SAVE) ddprun_channel_snapshot(request.step);
    if (request.kind == DDPRUN_REQUEST_SNAPSHOT) {
      printf("snapshot at %llu\n", (unsigned long long)request.step);
      ddprun_channel_snapshot(request.step - 1); /* an older one, that was being written */
      ddprun_channel_snapshot(request.step);
    }
    if (request.kind == DDPRUN_REQUEST_LEAVE) break;
    usleep(1000);
  }
  printf("leave\n");
}

/* What a fork tells must not be taken for the worker's own. */
static void fork_and_report(void) {
  const pid_t child = fork();
  if (child == 0) {
    ddprun_channel_beat(DDPRUN_BEAT_LOAD);
    ddprun_channel_wait("child");
    ddprun_channel_step(77);
    ddprun_channel_phase(DDPRUN_PHASE_FINISHING);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  ddprun_channel_phase(DDPRUN_PHASE_EVALUATING);
}

/* Noise all over the page, with wake-ups for whoever waits there. */
static void scribble(void) {
  uint32_t* const words = (uint32_t*)ddprun_channel_page_;
  const uint32_t offset = ddprun_channel_page_->lock_offset;
  uint32_t seed = 1, i;
  for (i = 0;; ++i) {
    seed = seed * 1664525u + 1013904223u;
    words[i % (DDPRUN_CHANNEL_BYTES / 4)] = seed;
    if (i % 2) ddprun_channel_page_->lock_offset = offset;
    ddprun_channel_page_->attached = seed;
    if (i % 16 == 0) syscall(SYS_futex, &words[offset / 4], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  }
}

static void execute(const char* word, char** argv) {
  if (!strcmp(word, "report")) report();
  if (!strcmp(word, "report-for-ever")) report_for_ever();
  if (!strcmp(word, "beats")) beats();
  if (!strcmp(word, "phases")) phases();
  if (!strcmp(word, "beat-for-ever")) beat_for_ever();
  if (!strcmp(word, "handle-signals")) ddprun_channel_handle_signals();
  if (!strcmp(word, "answer")) answer();
  if (!strcmp(word, "fork")) fork_and_report();
  if (!strcmp(word, "scribble")) scribble();
  if (!strcmp(word, "thread")) start_thread();
  if (!strcmp(word, "sleep")) sleep(60);
  if (!strcmp(word, "go-on"))
    for (;;) pause();
  if (!strcmp(word, "sleep-uninterruptibly") && vfork() == 0) _exit((int)pause()); /* its parent waits in the kernel */
  if (!strcmp(word, "exit-0")) exit(0);
  if (!strcmp(word, "exit-3")) exit(3);
  if (!strcmp(word, "crash")) signal(SIGSEGV, SIG_DFL), raise(SIGSEGV); /* a sanitizer would catch it */
  if (!strcmp(word, "end-main-thread")) pthread_exit(NULL);
  if (!strcmp(word, "end-main-thread-with-3")) syscall(SYS_exit, 3);
  if (!strcmp(word, "exec")) execl(argv[0], argv[0], argv[1], "sleep", (char*)NULL);
}

int main(int argc, char** argv) {
  const size_t bytes = (size_t)atol(argv[1]) << 20;
  static char* memory; /* what a leak checker finds is not lost */
  int i;
  prctl(PR_SET_NAME, "wor) R k er", 0, 0, 0); /* a name that is hard to read in /proc/<pid>/stat */
  memory = (char*)malloc(bytes + 1);
  memset(memory, 1, bytes + 1);
  ddprun_channel_attach();
  ddprun_channel_attach();
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
  if (!strcmp(argv[argc - 1], "when-asked")) --argc, answer();
  for (i = 2; i < argc; ++i) execute(argv[i], argv);
  return memory[bytes / 2] & 2;
}
