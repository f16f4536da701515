// The worker channel and the early detection of deaths, with real workers in C and in Python.
#include <poll.h>

#include "agent/channel/channel_page.h"
#include "agent/channel/death_watch.h"
#include "tests/support/test.h"

namespace {

const std::string kHere = test::source_folder() + "/tests/agent/channel";

double ms(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

bool eventually(const std::function<bool()>& yes, std::chrono::milliseconds limit = 20s) {
  return test::eventually(yes, limit);
}

// Python reports through its library; python_alone as where it finds none.
enum class Language { c, python, python_alone };

bool is_python(Language language) { return language == Language::python || language == Language::python_alone; }

SpawnRequest request_of(Language language, int megabytes, const std::vector<std::string>& words,
                        const std::string& variable) {
  std::vector<std::string> argv{test::programs_folder() + "/channel_worker"};
  if (is_python(language))
    argv = {"/usr/bin/env", "python3", kHere + "/channel_worker.py", test::source_folder() + "/rendezvous/channel"};
  argv.push_back(std::to_string(megabytes));
  argv.insert(argv.end(), words.begin(), words.end());
  SpawnRequest out{argv[0], argv, {"PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", variable}};
  if (language == Language::python_alone) out.environment.push_back("ALL_IN_PYTHON=1");
  return out;
}

// A worker with its page. Killed and reaped at the end.
class Worker {
 public:
  Worker(Language language, const std::vector<std::string>& words, int megabytes = 0)
      : page_(ChannelPage::create(Clock::now())) {
    REQUIRE(pipe2(output_, O_CLOEXEC) == 0);
    SpawnRequest request =
        request_of(language, megabytes, words, DDPRUN_CHANNEL_VARIABLE "=" + std::to_string(kChannelFd));
    request.stdout_fd = output_[1];
    request.passed = {{page_.fd(), kChannelFd}};
    spawned_ = spawn(request);
    REQUIRE(spawned_.error == 0);
    close(output_[1]);
  }
  ~Worker() {
    if (!status_) kill(spawned_.pid, SIGKILL);
    wait();
    close(output_[0]);
  }

  ChannelPage& page() { return page_; }
  pid_t pid() const { return spawned_.pid; }
  DeathWatch::Token token() const { return static_cast<DeathWatch::Token>(pid()); }
  Progress progress() { return page_.progress(Clock::now()); }
  bool reaches(ddprun_phase phase, std::chrono::milliseconds limit = 20s) {
    return eventually([&] { return progress().phase == phase; }, limit);
  }
  bool has_ended(Duration wait) {
    pollfd end{spawned_.fd.get(), POLLIN, 0};
    return poll(&end, 1, static_cast<int>(wait / 1ms)) == 1;
  }
  ExitStatus wait() {
    if (!status_ && has_ended(30s)) status_ = reap(spawned_.child(), spawned_.pid);
    return status_.value_or(ExitStatus{});
  }
  std::string output() {  // to its end
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = read(output_[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(n));
    return out;
  }

 private:
  ChannelPage page_;
  Spawned spawned_;
  int output_[2];
  std::optional<ExitStatus> status_;
};

const ExitStatus kKilled{.signal = SIGKILL};

// Notes when a hint of which worker came, and what was known of its end then.
class Hints {
 public:
  struct Item {
    DeathWatch::Token token;
    TimePoint at;
    std::optional<ExitStatus> status;
    Duration reading;
  };
  explicit Hints(DeathWatch::Kernel kernel = DeathWatch::Kernel::as_found)
      : watch_([this](DeathWatch::Token token) { take(token); }, kernel) {}
  DeathWatch& watch() { return watch_; }
  void watch(Worker& worker) { watch_.watch(worker.token(), worker.page()); }
  std::vector<Item> items() {
    const std::lock_guard lock(mutex_);
    return items_;
  }
  bool comes(std::size_t count = 1, std::chrono::milliseconds limit = 30s) {
    return eventually([&] { return items().size() >= count; }, limit);
  }

 private:
  void take(DeathWatch::Token token) {
    const TimePoint now = Clock::now();
    const auto status = dying_status(static_cast<pid_t>(token));
    const std::lock_guard lock(mutex_);
    items_.push_back({token, now, status, Clock::now() - now});
  }
  std::mutex mutex_;
  std::vector<Item> items_;
  DeathWatch watch_;
};

// The machine has other work, too: what has to be early may be late now and then.
bool in_some_try(int most, const std::function<bool()>& early) {
  for (int i = 0; i < most; ++i)
    if (early()) return true;
  return false;
}

int large_mb() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name && std::getline(file, rest);)
    if (name == "MemAvailable:") return static_cast<int>(std::min(512L, std::stol(rest) / 1024 / 4));
  return 0;
}

// What programs and agents of before there were beats expect of a page: where its records are, and what makes one
// whole.
namespace before_beats {

constexpr std::size_t kPageBytes = 640, kStep = 256, kPhase = 320, kThroughput = 448, kRequest = 512;

template <class Number>
Number number_at(const ddprun_channel_page& page, std::size_t offset) {
  Number out;
  std::memcpy(&out, reinterpret_cast<const char*>(&page) + offset, sizeof out);
  return out;
}

// Its two numbers; empty: it is not whole.
std::vector<std::uint64_t> record_at(const ddprun_channel_page& page, std::size_t offset) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  std::uint64_t words[4], check = kMix;  // two numbers, a time, the check
  for (std::size_t i = 0; i < 4; ++i) words[i] = number_at<std::uint64_t>(page, offset + 8 * i);
  for (std::size_t i = 0; i < 3; ++i) check = (check ^ words[i]) * (i < 2 ? kMix : 1);
  return check * kMix == words[3] ? std::vector{words[0], words[1]} : std::vector<std::uint64_t>{};
}

// As one wrote it: testdata says which.
void load(ddprun_channel_page& page) {
  std::ifstream file(test::source_folder() + "/tests/agent/testdata/channel_page_before_beats.txt");
  std::size_t offset = 0;
  for (std::string line; std::getline(file, line);) {
    std::uint64_t word = 0;
    if (!line.starts_with("#") && std::istringstream(line) >> offset >> std::hex >> word)
      std::memcpy(reinterpret_cast<char*>(&page) + offset, &word, sizeof word);
  }
  REQUIRE(offset == kThroughput + 24);
}

}  // namespace before_beats

}  // namespace

TEST_CASE("what a worker tells through its channel is read as it was told, also by an agent of before there were beats",
          "[channel]") {
  const auto language = GENERATE(Language::c, Language::python, Language::python_alone);
  const TimePoint before = Clock::now();
  Worker worker(language, {"beats", "report", "sleep"});
  REQUIRE(worker.reaches(DDPRUN_PHASE_SAVING));
  const Progress progress = worker.progress();
  CHECK(progress.step == 1000u);
  CHECK(progress.steps_done == 1001);  // one with the beats
  CHECK(progress.snapshot_step == 990u);
  CHECK(progress.snapshot_bytes == 49'000'000u);
  CHECK(progress.samples_per_second == 1234.5);
  CHECK(progress.loss == 0.25);
  CHECK(progress.total_steps == 5000u);
  CHECK(*progress.snapshot_at > before);
  CHECK(*progress.at >= *progress.snapshot_at);
  CHECK(*progress.at <= Clock::now());
  const ddprun_channel_page& page = *worker.page().memory();
  CHECK(before_beats::record_at(page, before_beats::kPhase) == std::vector<std::uint64_t>{5, 0});
  CHECK(before_beats::record_at(page, before_beats::kStep) == std::vector<std::uint64_t>{1000, 1001});
  CHECK(before_beats::kPageBytes <= offsetof(ddprun_channel_page, beat));
}

TEST_CASE("a worker is asked for a snapshot once each time, and to save and to leave, which counts more", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python);
  Worker worker(language, {"answer"});
  REQUIRE(worker.reaches(DDPRUN_PHASE_TRAINING));
  const auto has_snapshot_of = [&](std::uint64_t step) {
    return eventually([&] { return worker.progress().snapshot_step == step; });
  };
  for (const std::uint64_t step : {7, 9}) {
    worker.page().request_snapshot_at(step);
    REQUIRE(has_snapshot_of(step));
  }
  worker.page().request_save_at(5'000'000'000);
  REQUIRE(has_snapshot_of(5'000'000'000));
  worker.page().request_leave_without_saving();
  worker.page().request_snapshot_at(11);
  CHECK_THAT(worker.output(), Matches("snapshot at 7\nsnapshot at 9\n(save at 5000000000\n)+leave\n"));
  CHECK(worker.wait().ok());
}

TEST_CASE(
    "a signal that announces a preemption is a notice to the agent, and after a request to leave the worker's end",
    "[channel]") {
  const auto language = GENERATE(Language::c, Language::python);
  const auto kernel = GENERATE(DeathWatch::Kernel::as_found, DeathWatch::Kernel::without_waitv);
  Worker worker(language, {"handle-signals", "report", "go-on"});
  Hints hints(kernel);
  hints.watch(worker);
  REQUIRE(worker.reaches(DDPRUN_PHASE_SAVING));
  CHECK_FALSE(worker.page().new_notice(Clock::now()));
  for (std::size_t count = 1; count <= 2; ++count) {
    kill(worker.pid(), SIGTERM);
    REQUIRE(hints.comes(count));
    CHECK_FALSE(hints.items().back().status);
    CHECK(worker.page().new_notice(Clock::now()) == SIGTERM);
    CHECK_FALSE(worker.page().new_notice(Clock::now()));
  }
  worker.page().request_snapshot_at(2000);  // says nothing of an end
  kill(worker.pid(), SIGTERM);
  REQUIRE(hints.comes(3));
  CHECK(worker.page().new_notice(Clock::now()) == SIGTERM);
  worker.page().request_save_at(2000);
  kill(worker.pid(), SIGTERM);
  CHECK_FALSE(worker.has_ended(100ms));
  CHECK_FALSE(worker.page().new_notice(Clock::now()));
  worker.page().request_leave_without_saving();
  kill(worker.pid(), SIGTERM);
  CHECK(worker.wait().signal == SIGTERM);
}

TEST_CASE("a step is never read half written", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python, Language::python_alone);
  Worker worker(language, {"report-for-ever"});
  REQUIRE(eventually([&] { return worker.progress().step.has_value(); }));
  std::uint64_t last = 0;
  bool whole = true, forward = true;
  const TimePoint least = Clock::now() + 200ms, most = Clock::now() + 20s;
  while (Clock::now() < least || (last <= 1000 && Clock::now() < most)) {
    const Progress progress = worker.progress();
    whole &= progress.step == progress.steps_done;
    forward &= progress.steps_done >= last;
    last = progress.steps_done;
  }
  CHECK(whole);
  CHECK(forward);
  CHECK(last > 1000);
}

TEST_CASE("the beats of a worker, and how long they took, are read as they were told", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python, Language::python_alone);
  Worker worker(language, {"beats", "sleep"});
  REQUIRE(eventually([&] { return worker.progress().step == 3u; }));
  const Progress progress = worker.progress();
  REQUIRE(progress.beat);
  CHECK(progress.beat->kind == DDPRUN_BEAT_WAIT);
  CHECK(progress.beat->waits == 2);
  CHECK(progress.beat->collective == "a long n");
  CHECK(progress.beat->load >= 40ms);
  CHECK(progress.beat->compute >= 20ms);
  CHECK(progress.beat->wait >= 60ms);
  CHECK(*progress.at >= progress.beat->at);
}

TEST_CASE("how long a worker's phases took is read as it was told, and which step was the first", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python, Language::python_alone);
  Worker worker(language, {"phases", "sleep"});
  REQUIRE(worker.reaches(DDPRUN_PHASE_FINISHING));
  REQUIRE(eventually([&] { return worker.progress().times->phase == DDPRUN_PHASE_FINISHING; }));
  const Progress progress = worker.progress();
  const PhaseTimes& times = *progress.times;
  REQUIRE(times.work);
  CHECK(times.attached <= *times.work);
  CHECK(times.spent[DDPRUN_PHASE_SAVING] >= 20ms);
  CHECK(times.spent[DDPRUN_PHASE_EVALUATING] >= 10ms);
  CHECK(times.spent[DDPRUN_PHASE_LOADING] == 0ns);
  std::chrono::nanoseconds all{};
  for (const auto spent : times.spent) all += spent;
  CHECK(all == times.since - *times.work);
  CHECK(progress.first_step == 40u);
  CHECK(progress.step == 41u);
  CHECK(*progress.first_step_at <= *progress.step_at);
}

TEST_CASE("times of nonsense are taken for what they can mean at most", "[channel]") {
  const TimePoint made = Clock::now();
  ChannelPage page = ChannelPage::create(made);
  CHECK_FALSE(page.progress(made + 1s).times);
  ddprun_channel_phase_times& record = page.memory()->phase_times;
  std::memset(&record, 0xff, sizeof record);
  CHECK_FALSE(page.progress(made + 1s).times);
  record.check = ddprun_channel_check_of_times_(&record);
  const PhaseTimes high = *page.progress(made + 1s).times;
  CHECK(high.phase == DDPRUN_PHASE_UNKNOWN);
  CHECK((high.attached == made + 1s && high.work == made + 1s && high.since == made + 1s));
  CHECK(high.spent[DDPRUN_PHASE_SAVING] == 1s);
  record = {.phase = DDPRUN_PHASE_SAVING,
            .time_ns = 5,
            .attached_ns = 1,
            .work_ns = 0,
            .spent_ns = {9, 9, 9, 9, 9, 9},
            .check = 0,
            .unused = {}};
  record.check = ddprun_channel_check_of_times_(&record);
  const PhaseTimes low = *page.progress(made + 1s).times;
  CHECK((low.attached == made && !low.work && low.since == made && low.spent[DDPRUN_PHASE_SAVING] == 0ns));
  record.phase = DDPRUN_PHASE_TRAINING;  // torn: what was whole still holds
  CHECK(page.progress(made + 1s).times->phase == DDPRUN_PHASE_SAVING);
  REQUIRE(page.seat({}, made + 2s));  // a worker that stays begins anew
  CHECK_FALSE(page.progress(made + 3s).times);
}

TEST_CASE("a script and a library that report beats in turns lose none of each other's time", "[channel]") {
  const auto language = GENERATE(Language::python, Language::python_alone);  // the first: the script by its library
  Worker worker(language, {"beats-of-two", "sleep", "when-asked"});
  REQUIRE(eventually([&] { return worker.progress().beat.has_value(); }));
  const TimePoint began = worker.progress().beat->at;
  worker.page().request_leave_without_saving();
  REQUIRE(eventually([&] { return worker.progress().step == 3u; }));
  const auto beat = worker.progress().beat;
  REQUIRE(beat);
  CHECK(beat->waits == 7);
  CHECK(beat->at - beat->load - beat->compute - beat->wait == began);
}

TEST_CASE("the compiled reports of a watched step are those of Python, and none in another phase or a fork",
          "[channel]") {
  Worker worker(Language::python, {"compiled-reports", "sleep"});
  REQUIRE(eventually([&] { return worker.progress().step == 41u; }));
  CHECK(worker.progress().steps_done == 2);
  REQUIRE(eventually([&] { return worker.progress().beat.value_or(Beat{}).kind == DDPRUN_BEAT_LOAD; }));
  CHECK(worker.progress().beat->compute > 0ns);
}

TEST_CASE("a beat is activity, and time in other phases or in a fork is not counted", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python, Language::python_alone);
  Worker worker(language, {"fork", "report", "sleep"});
  REQUIRE(worker.reaches(DDPRUN_PHASE_SAVING));
  REQUIRE(eventually(
      [&] { return worker.progress().beat.value_or(Beat{}).kind == DDPRUN_BEAT_NONE; }));  // follows the phase
  const auto beat = worker.progress().beat;
  REQUIRE(beat);
  CHECK(worker.progress().steps_done == 1000);  // none of the child's
  CHECK(beat->waits == 0);
  CHECK(beat->collective.empty());
  CHECK(beat->load == 0ns);
  CHECK(beat->compute > 0ns);
  CHECK(beat->wait == 0ns);
  CHECK(worker.progress().at == beat->at);  // the last report of all
}

TEST_CASE("a beat is never read half written", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python, Language::python_alone);
  Worker worker(language, {"beat-for-ever"});
  const auto beat = [&] {  // of whatever time: it may have begun after we asked
    return worker.page().progress(Clock::now() + 1min).beat.value_or(Beat{});
  };
  REQUIRE(eventually([&] { return beat().waits > 0; }));
  const auto first_at = [](const Beat& b) { return b.at - b.load - b.compute - b.wait; };
  const TimePoint began = first_at(beat());
  std::uint64_t last = 0;
  std::vector<std::string> wrong;
  const TimePoint least = Clock::now() + 200ms, most = Clock::now() + 20s;
  while (Clock::now() < least || (last <= 1000 && Clock::now() < most)) {
    const Beat b = beat();
    if (b.collective != (b.kind != DDPRUN_BEAT_WAIT ? "" : b.waits % 2 ? "odd" : "even")) wrong.push_back("name");
    if (first_at(b) != began) wrong.push_back("times");
    if (b.waits < last) wrong.push_back("waits");
    last = b.waits;
  }
  CHECK(wrong.empty());
  CHECK(last > 1000);
}

TEST_CASE("a beat of nonsense is taken for what it can mean at most", "[channel]") {
  const TimePoint made = Clock::now();
  ChannelPage page = ChannelPage::create(made);
  CHECK_FALSE(page.progress(made + 1s).beat);
  ddprun_channel_beat_record& record = page.memory()->beat;
  const auto write = [&](std::uint64_t first, const char* name, std::uint64_t time_ns, std::uint64_t spent_ns) {
    record = {first, 0, time_ns, 0, {spent_ns, spent_ns, spent_ns}, 0};
    std::memcpy(&record.second, name, std::min(std::strlen(name), sizeof record.second));
    record.check = ddprun_channel_beat_check_(first, record.second, time_ns);
    record.check_of_all = ddprun_channel_check_of_all_(record.check, record.spent_ns);
    return *page.progress(made + 1s).beat;
  };
  const Beat high = write(UINT64_MAX, "grads", UINT64_MAX, UINT64_MAX);
  CHECK(high.kind == DDPRUN_BEAT_NONE);
  CHECK(high.collective.empty());
  CHECK(high.at == made + 1s);
  CHECK((high.load == 1s && high.compute == 1s && high.wait == 1s));
  CHECK(write(DDPRUN_BEAT_WAIT, "reduce_s", 0, 5).collective == "reduce_s");
  CHECK(write(DDPRUN_BEAT_WAIT, "a\033[31m", 0, 0).collective.empty());
  CHECK(write(DDPRUN_BEAT_WAIT, "caf\xc3\xa9", 0, 0).collective.empty());
  const Beat low = write(DDPRUN_BEAT_LOAD, "grads", 0, 5);
  CHECK((low.kind == DDPRUN_BEAT_LOAD && low.collective.empty() && low.at == made && low.load == 0ns));
  for (const std::size_t word : {0, 1, 2, 3, 4, 5, 6, 7}) {  // whichever is torn, what was whole still holds
    write(DDPRUN_BEAT_WAIT, "grads", 0, 0);
    reinterpret_cast<std::uint64_t*>(&record)[word] += 256;
    CHECK(page.progress(made + 1s).beat->collective == "grads");
    CHECK(page.progress(made + 1s).beat->waits == 0);
  }
}

TEST_CASE("a program that was built before there were beats takes today's page into use, and does as it is asked",
          "[channel]") {
  const TimePoint made = Clock::now();
  ChannelPage page = ChannelPage::create(made);
  const ddprun_channel_page& memory = *page.memory();
  using namespace before_beats;
  CHECK(number_at<std::uint64_t>(memory, 0) == 0x6c6e6863706464);  // "ddpchnl"
  CHECK(number_at<std::uint32_t>(memory, 8) == 1);
  CHECK(number_at<std::uint32_t>(memory, 12) == 4096);
  CHECK(fs::file_size("/proc/self/fd/" + std::to_string(page.fd())) == 4096);
  page.request_save_at(5'000'000'000);
  CHECK(record_at(memory, kRequest) == std::vector<std::uint64_t>{1, 5'000'000'000});
  page.request_leave_without_saving();
  CHECK(record_at(memory, kRequest) == std::vector<std::uint64_t>{2, 0});
}

TEST_CASE("what a program tells that was built before there were beats is read by an agent of today", "[channel]") {
  const TimePoint made = Clock::now();
  ChannelPage page = ChannelPage::create(made);
  CHECK_FALSE(page.attached());
  before_beats::load(*page.memory());
  CHECK(page.attached());
  CHECK(page.owner() == 0x628e);
  const Progress progress = page.progress(made + 1s);
  CHECK(progress.phase == DDPRUN_PHASE_SAVING);
  CHECK(progress.step == 1000u);
  CHECK(progress.steps_done == 1000);
  CHECK(progress.samples_per_second == 1234.5);
  CHECK(progress.snapshot_step == 990u);
  CHECK((*progress.at >= made && *progress.at <= made + 1s));
  CHECK_FALSE((progress.beat || progress.times || progress.first_step || progress.loss || progress.unasked));
}

TEST_CASE("who is seated again has told nothing of the new round yet", "[channel]") {
  ChannelPage page = ChannelPage::create(Clock::now());
  ddprun_channel_write_(&page.memory()->notice, SIGTERM, 0);
  ddprun_channel_write_(&page.memory()->step, 7, 7);
  CHECK(page.new_notice(Clock::now()) == SIGTERM);
  CHECK(page.progress(Clock::now()).step == 7u);
  REQUIRE(page.seat({"RANK=1"}, Clock::now()));
  CHECK_FALSE(page.new_notice(Clock::now()));
  CHECK_FALSE(page.progress(Clock::now()).step);
}

TEST_CASE("a file that a script has written counts for it only where nobody asked the script", "[channel]") {
  ChannelPage page = ChannelPage::create(Clock::now());
  ddprun_channel_page& memory = *page.memory();
  CHECK_FALSE(page.progress(Clock::now()).file_step);
  ddprun_channel_write_(reinterpret_cast<ddprun_channel_record*>(memory.snapshot.unused), 20, 0);
  CHECK(page.progress(Clock::now()).file_step == 20u);
  CHECK_FALSE(page.progress(Clock::now()).snapshot_step);
  CHECK_FALSE(page.progress(Clock::now()).unasked);
  memory.inferred = 3;
  CHECK(page.progress(Clock::now()).unasked);
  REQUIRE(page.seat({"RANK=1"}, Clock::now()));
  CHECK_FALSE(page.progress(Clock::now()).file_step);
}

TEST_CASE("C and Python agree on the page's layout", "[channel]") {
  const std::string program =
      "import worker_channel as c\n"
      "print(*[8 * at for at in (c._STEP, c._PHASE, c._SNAPSHOT, c._THROUGHPUT, c._REQUEST, c._NOTICE, c._BEAT, "
      "c._FIRST_STEP, c._OUTLOOK, c._FILE)],"
      " c._PHASE_TIMES_OFFSET, c.NONE, c.LOAD, c.COMPUTE, c.WAIT, c._ONE_WAIT)";
  const auto python = test::run(
      {"/usr/bin/env", "python3", "-c", program}, 20s,
      {.env = {{"PYTHONPATH", test::source_folder() + "/rendezvous/channel"}, {"PYTHONDONTWRITEBYTECODE", "1"}}});
  REQUIRE(python == test::exited(0));
  using Page = ddprun_channel_page;
  CHECK(python.out == "256 320 384 448 512 576 640 3968 4032 416 3840 0 1 2 3 256\n");
  CHECK(std::vector{offsetof(Page, step), offsetof(Page, notice), offsetof(Page, beat), offsetof(Page, phase_times),
                    offsetof(Page, first_step), offsetof(Page, outlook),
                    offsetof(Page, snapshot.unused)} == std::vector<std::size_t>{256, 576, 640, 3840, 3968, 4032, 416});
  CHECK(sizeof(ddprun_channel_beat_record) == 64);
  CHECK(sizeof(Page) <= DDPRUN_CHANNEL_BYTES);
}

TEST_CASE("telling a step takes less than 100 ns", "[channel]") {
  Worker worker(Language::c, {"report-for-ever"});
  REQUIRE(eventually([&] { return worker.progress().steps_done > 0; }));
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {  // the machine has other work, too
    const Progress first = worker.progress();
    eventually([&] { return *worker.progress().at - *first.at > 2ms; });
    const Progress last = worker.progress();
    best = std::min(best, ms(*last.at - *first.at) * 1e6 / static_cast<double>(last.steps_done - first.steps_done));
  }
  std::cout << "one step told every " << best << " ns\n";
#ifdef NDEBUG
  CHECK(best < 100);
#endif
}

TEST_CASE("a program with a channel runs as well where there is none", "[channel]") {
  const auto language = GENERATE(Language::c, Language::python);
  const std::string variable = GENERATE("HOME=/", "DDPRUN_CHANNEL_FD=99", "DDPRUN_CHANNEL_FD=0", "DDPRUN_CHANNEL_FD=1",
                                        "DDPRUN_CHANNEL_FD=", "DDPRUN_CHANNEL_FD=-1", "DDPRUN_CHANNEL_FD=x7",
                                        "DDPRUN_CHANNEL_FD=99999999999999999999");
  const Spawned worker = spawn(request_of(language, 0, {"report", "fork", "exit-0"}, variable));
  pollfd end{worker.fd.get(), POLLIN, 0};
  REQUIRE(poll(&end, 1, 20'000) == 1);
  CHECK(reap(worker.child(), worker.pid)->ok());
}

TEST_CASE("a worker that scribbles over its page hurts nobody", "[channel]") {
  Hints hints;
  Worker noisy(Language::c, {"scribble"}), good(Language::c, {"sleep"});
  hints.watch(noisy);
  hints.watch(good);
  REQUIRE(good.reaches(DDPRUN_PHASE_TRAINING));
  for (const auto end = Clock::now() + 300ms; Clock::now() < end;) {
    const Progress progress = noisy.progress();
    if (progress.at) CHECK(*progress.at <= Clock::now());
    if (progress.samples_per_second) CHECK(*progress.samples_per_second >= 0);
  }
  kill(good.pid(), SIGKILL);
  CHECK(eventually([&] {
    const auto items = hints.items();
    return std::any_of(items.begin(), items.end(), [&](const Hints::Item& item) {
      return item.token == good.token() && item.status.value_or(kKilled) == kKilled;
    });
  }));
  for (const auto& item : hints.items())  // however dead its page looks, it lives
    CHECK((item.token == good.token() || !item.status));
}

TEST_CASE("a record of nonsense is taken for what it can mean at most", "[channel]") {
  const TimePoint made = Clock::now();
  ChannelPage page = ChannelPage::create(made);
  const auto write = [](ddprun_channel_record& record, std::uint64_t first, std::uint64_t time_ns) {
    record = {first, 0, time_ns, ddprun_channel_check_(first, 0, time_ns), {}};
  };
  write(page.memory()->phase, 1'000'000, UINT64_MAX);
  write(page.memory()->throughput, 0x7FF8'0000'0000'0000, 0);  // not a number
  CHECK(page.progress(made + 1s).phase == DDPRUN_PHASE_UNKNOWN);
  CHECK(page.progress(made + 1s).at == made + 1s);
  CHECK_FALSE(page.progress(made + 1s).samples_per_second);
  write(page.memory()->phase, DDPRUN_PHASE_SAVING, 0);
  CHECK(page.progress(made + 1s).at == made);
  page.memory()->outlook = {0x7FF8'0000'0000'0000, 3, 0, 1, 0, {}};
  page.memory()->outlook.check = ddprun_channel_check_of_outlook_(&page.memory()->outlook);
  CHECK_FALSE(page.progress(made + 1s).loss);
  CHECK_FALSE(page.progress(made + 1s).total_steps);
  page.memory()->phase.second = 1;  // the check is wrong now: what was whole still holds
  CHECK(page.progress(made + 1s).phase == DDPRUN_PHASE_SAVING);
}

TEST_CASE("a worker cannot cut its page off", "[channel]") {
  ChannelPage page = ChannelPage::create(Clock::now());
  CHECK(ftruncate(page.fd(), 0) != 0);
  CHECK(ftruncate(page.fd(), 1 << 20) != 0);
}

TEST_CASE("each way to fail is known early, and by its own status", "[death]") {
  const auto kernel = GENERATE(DeathWatch::Kernel::as_found, DeathWatch::Kernel::without_waitv);
  const auto language = GENERATE(Language::c, Language::python);
  using Case = std::pair<std::vector<std::string>, ExitStatus>;
  const Case failure =
      GENERATE(Case{{"sleep"}, {.signal = SIGKILL}}, Case{{"crash", "when-asked"}, {.signal = SIGSEGV}},
               Case{{"exit-3", "when-asked"}, {.code = 3}}, Case{{"thread", "exit-3", "when-asked"}, {.code = 3}});
  const auto detected_early = [&] {
    Hints hints(kernel);
    Worker worker(language, failure.first, 64);  // its freeing is our time to look
    hints.watch(worker);
    REQUIRE(worker.reaches(DDPRUN_PHASE_TRAINING));
    if (failure.second.signal == SIGKILL) kill(worker.pid(), SIGKILL);
    worker.page().request_leave_without_saving();
    REQUIRE(hints.comes());
    CHECK(worker.wait() == failure.second);
    const auto status = hints.items()[0].status;
    if (status) CHECK(*status == failure.second);
    return status.has_value();
  };
  CHECK(in_some_try(5, detected_early));
}

TEST_CASE("an exit with 0 is never taken for a failure", "[death]") {
  const auto language = GENERATE(Language::c, Language::python);
  Hints hints;
  Worker worker(language, {"thread", "exit-0"}, 64);
  hints.watch(worker);
  CHECK(worker.wait().ok());
  CHECK(hints.comes());
  for (const auto& item : hints.items()) CHECK_FALSE(item.status);
}

TEST_CASE("a main thread that ended while others go on is not taken for a failure", "[death]") {
  const std::string how = GENERATE("end-main-thread", "end-main-thread-with-3");
  Hints hints;
  Worker worker(Language::c, {"thread", how});
  hints.watch(worker);
  REQUIRE(hints.comes());
  CHECK_FALSE(hints.items()[0].status);
  CHECK_FALSE(dying_status(worker.pid()));
  CHECK_FALSE(worker.has_ended(0ms));
}

TEST_CASE("a worker that execs itself is watched on", "[death]") {
  const auto language = GENERATE(Language::c, Language::python);
  const auto detected_early = [&] {
    Hints hints;
    Worker worker(language, {"exec"}, 100);
    hints.watch(worker);
    if (!hints.comes(1, 5s)) return false;  // it was back before we looked
    CHECK_FALSE(hints.items()[0].status);
    const std::uint32_t& attached = worker.page().memory()->attached;
    REQUIRE(eventually([&] { return __atomic_load_n(&attached, __ATOMIC_RELAXED) == 2; }));
    kill(worker.pid(), SIGKILL);
    if (!hints.comes(2, 5s) || !hints.items()[1].status) return false;
    CHECK(hints.items()[1].status == kKilled);
    return true;
  };
  CHECK(in_some_try(5, detected_early));
}

TEST_CASE("there is no news of a worker that was forgotten or never attached", "[death]") {
  Hints hints;
  Worker forgotten(Language::c, {"sleep"}), silent(Language::c, {"sleep"});
  hints.watch(forgotten);
  REQUIRE(forgotten.reaches(DDPRUN_PHASE_TRAINING));
  hints.watch().forget(forgotten.token());
  ChannelPage untouched = ChannelPage::create(Clock::now());
  hints.watch().watch(silent.token(), untouched);
  for (Worker* worker : {&forgotten, &silent}) {
    kill(worker->pid(), SIGKILL);
    CHECK(worker->wait().signal == SIGKILL);
  }
  std::deque<Worker> last;  // what one of them brings would have come after theirs
  do {
    last.emplace_back(Language::c, std::vector<std::string>{"exit-3"});
    hints.watch(last.back());
  } while (!hints.comes(1, 5s) && last.size() < 3);
  CHECK_FALSE(hints.items().empty());
  CHECK(hints.items().size() <= last.size());
}

TEST_CASE("the death of a large worker is known in a part of the time that its pidfd takes",
          "[death][large][release-only]") {
  const auto language = GENERATE(Language::c, Language::python);
  CHECK(in_some_try(8, [&] {
    Hints hints;
    Worker worker(language, {"sleep"}, large_mb());
    hints.watch(worker);
    REQUIRE(worker.reaches(DDPRUN_PHASE_TRAINING, 60s));
    const TimePoint killed = Clock::now();
    kill(worker.pid(), SIGKILL);
    REQUIRE(worker.has_ended(30s));
    const Duration by_pidfd = Clock::now() - killed;
    REQUIRE(hints.comes());
    const auto item = hints.items()[0];
    if (!item.status) return false;  // we came too late to see it die
    CHECK(*item.status == kKilled);
    std::cout << (language == Language::c ? "C" : "Python") << " worker of " << large_mb() << " MB: known after "
              << ms(item.at - killed) << " ms, confirmed after " << ms(item.at - killed + item.reading)
              << " ms; by pidfd after " << ms(by_pidfd) << " ms\n";
    return 4 * (item.at - killed + item.reading) < by_pidfd;
  }));
}

TEST_CASE("the deaths of 200 workers are all known", "[death]") {
  const auto kernel = GENERATE(DeathWatch::Kernel::as_found, DeathWatch::Kernel::without_waitv);
  Hints hints(kernel);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 200; ++i) {
    workers.push_back(std::make_unique<Worker>(Language::c, std::vector<std::string>{"sleep"}, 1));
    hints.watch(*workers.back());
  }
  for (auto& worker : workers) REQUIRE(worker->reaches(DDPRUN_PHASE_TRAINING));
  for (auto& worker : workers) kill(worker->pid(), SIGKILL);
  CHECK(hints.comes(200));
  std::vector<DeathWatch::Token> tokens;
  for (const auto& item : hints.items()) tokens.push_back(item.token);
  std::sort(tokens.begin(), tokens.end());
  CHECK(std::unique(tokens.begin(), tokens.end()) - tokens.begin() == 200);
}

TEST_CASE("of a process that lives or is not there no end is told", "[death]") {
  CHECK_FALSE(dying_status(-1));
  CHECK_FALSE(dying_status(getpid()));
}
