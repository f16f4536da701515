#include "launcher/command/chaos_command.h"

#include <csignal>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "launcher/chaos/chaos_outcomes.h"
#include "launcher/chaos/chaos_plan.h"
#include "launcher/chaos/chaos_words.h"
#include "launcher/config/exit_codes.h"
#include "launcher/jobs/job_refused.h"
#include "launcher/running/live_job.h"
#include "launcher/view/units.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr int kNotRecovered = 1, kListed = 20;
constexpr auto kLookEvery = 50ms;

volatile std::sig_atomic_t chaos_interrupted = 0;

int say_why(const std::string& sentence, int code) {
  print_line(stderr, "ddprun chaos: " + sentence);
  return code;
}

double seconds_since(TimePoint then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

class Chaos {
 public:
  Chaos(const ChaosWords& words, std::uint64_t seed)
      : words_(words), seed_(seed), plan_(seed, words.faults), job_(LiveJob(job_words(), Purpose::act)) {}

  int run() {
    print_line(stderr, "ddprun chaos: seed " + std::to_string(seed_));
    int code = kSuccess;
    TimePoint next = Clock::now();
    const TimePoint began = next;
    while (!chaos_interrupted && code == kSuccess && !is_enough(began)) {
      const auto before = wait_until([&](const json& live) { return Clock::now() >= next && trains(live); });
      if (!before) {
        if (outcomes_.empty()) code = kNotRecovered;
        break;
      }
      const TimePoint struck = Clock::now();
      if (strike(*before, code)) next = struck + words_.every;
    }
    if (outcomes_.empty() && declined_ == 0) return code;
    if (words_.json)
      print_text(stdout, json_text(chaos_json(seed_, outcomes_, declined_), {.indent = 1, .ascii = true}) + "\n");
    else if (!outcomes_.empty())
      print_text(stdout, chaos_table(outcomes_));
    if (outcomes_.empty()) return kNotRecovered;  // nothing was shown
    return all_recovered(outcomes_) ? code : kNotRecovered;
  }

 private:
  JobWords job_words() const { return {.handle = words_.job, .access = words_.access}; }

  bool is_enough(TimePoint began) const {
    if (words_.count) return static_cast<int>(outcomes_.size()) + declined_ >= *words_.count;
    return words_.time && Clock::now() - began >= *words_.time;
  }

  // Null: nobody answers. A job that has ended may be started again.
  json look() try {
    if (!job_) job_.emplace(job_words(), Purpose::act);
    json live = job_->status();
    if (!live.is_object()) job_.reset();
    return live;
  } catch (const JobRefused&) {
    return {};
  } catch (const Error&) {
    job_.reset();
    return {};
  }

  // What the job says once it is so, within the limit of a recovery beyond --every.
  template <class Condition>
  std::optional<json> wait_until(Condition condition) {
    const TimePoint end = Clock::now() + words_.every + words_.limit;
    bool was_there = false;
    for (json live; !chaos_interrupted && Clock::now() < end; std::this_thread::sleep_for(kLookEvery)) {
      live = look();
      if (condition(live)) return live;
      was_there |= live.is_object();
      if (!live.is_object() && !awaits_start_ && was_there) {
        say_why("the job has ended.", 0);
        return {};
      }
    }
    if (!chaos_interrupted)
      say_why("the job does not train: not all of its ranks have reported a step (docs/worker-channel.md).", 0);
    return {};
  }

  // True: it was done.
  bool strike(const json& before, int& code) {
    rendezvous::Fault fault = plan_.next().of_job(before["world_size"]);
    fault.id = std::uniform_int_distribution<std::uint64_t>(1)(ids_);
    const rendezvous::Act act{.kind = rendezvous::ActKind::fault, .by = own_name(), .fault = fault};
    const TimePoint at = Clock::now();
    rendezvous::ActResult answer;
    try {
      answer = job_->act(act);
    } catch (const Error& error) {
      answer.text = error.what();
    }
    if (!answer.done) {
      code = kNotRecovered;
      const bool is_other_kind = words_.faults.size() > 1 && fault.kind == rendezvous::FaultKind::cut;
      if (is_other_kind) code = kSuccess;
      if (!is_other_kind || !told_of_cut_) say_why("not done: " + answer.text + ".", code);
      told_of_cut_ |= is_other_kind;
      return false;
    }
    std::string line = answer.text;
    awaits_start_ = fault.kind == rendezvous::FaultKind::preempt;
    Recovery recovery(before, fault);
    ChaosOutcome outcome{.kind = fault.kind};
    while (!chaos_interrupted && Clock::now() - at < words_.limit) {
      const json live = look();
      if (recovery.on(live, seconds_since(at))) {
        if (recovery.declined()) {
          print_line(stderr, "ddprun chaos: " + line + ": not done; the job's ddprun says why");
          ++declined_;
          break;
        }
        outcome = {fault.kind, seconds_since(at), recovery.steps_lost(), recovery.charged()};
        break;
      }
      if (!live.is_object() && !awaits_start_ && !job_) break;
      std::this_thread::sleep_for(kLookEvery);
    }
    awaits_start_ = false;
    if (recovery.declined()) return true;
    line += outcome.seconds ? formatted(": recovered after %.2f s", *outcome.seconds) : ": not recovered";
    if (outcome.steps_lost > 0) line += ", " + std::to_string(outcome.steps_lost) + " steps lost";
    print_line(stderr, "ddprun chaos: " + line);
    if (!chaos_interrupted || outcome.seconds) outcomes_.push_back(outcome);
    if (!outcome.seconds) code = kNotRecovered;
    return true;
  }

  const ChaosWords words_;
  const std::uint64_t seed_;
  ChaosPlan plan_;
  std::optional<LiveJob> job_;
  std::vector<ChaosOutcome> outcomes_;
  std::mt19937_64 ids_{std::random_device()()};
  int declined_ = 0;
  bool awaits_start_ = false, told_of_cut_ = false;
};

int print_plan(const ChaosWords& words, std::uint64_t seed) {
  ChaosPlan plan(seed, words.faults);
  std::string out = "seed " + std::to_string(seed) + ", " + std::to_string(words.ranks) + " ranks\n";
  for (int i = 0; i < words.count.value_or(kListed); ++i) out += in_words(plan.next().of_job(words.ranks)) + "\n";
  print_text(stdout, out);
  return kSuccess;
}

}  // namespace

int run_chaos(const std::vector<std::string>& all) {
  const ChaosWords words = read_chaos_words(all);
  if (!words.answer.empty()) return print_text(stdout, words.answer), kSuccess;
  if (!words.mistake.empty()) return say_why(words.mistake, kUsage);
  const std::uint64_t seed = words.seed ? *words.seed : std::random_device()();
  if (words.dry_run) return print_plan(words, seed);
  try {
    std::signal(SIGINT, [](int) { chaos_interrupted = 1; });
    std::signal(SIGTERM, [](int) { chaos_interrupted = 1; });
    return Chaos(words, seed).run();
  } catch (const JobRefused& refused) {
    return say_why(refused.what(), kUsage);
  } catch (const UsageError& error) {
    return say_why(error.what(), kUsage);
  } catch (const Error& error) {
    return say_why(error.what(), kRendezvousImpossible);
  }
}

}  // namespace ddprun::launcher
