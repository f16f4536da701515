#include "launcher/command/ctl_command.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <thread>

#include "agent/status/act_request.h"
#include "launcher/command/ctl_words.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/job_refused.h"
#include "launcher/running/live_job.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRefused = 1;
constexpr std::chrono::seconds kSnapshotLimit{60};
constexpr std::chrono::milliseconds kLookPeriod{100};

int tell(const std::string& sentence, int code) {
  print_line(stderr, "ddprun ctl: " + sentence);
  return code;
}

int confirm(const rendezvous::Act& act, const std::string& answer) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  print_line(stdout, act_line(in_words(act), answer, local));
  return kSuccess;
}

bool has_steps(const nlohmann::json& live) {
  return live.is_object() && live.value("step", nlohmann::json()).is_number();
}

// The step of a snapshot that a rank has reported since then, and that holds no older state; nothing: none was.
std::optional<std::uint64_t> reported_snapshot(LiveJob& job, std::uint64_t step, Clock::time_point asked) {
  while (Clock::now() - asked < kSnapshotLimit) {
    const nlohmann::json live = job.status();
    if (!live.is_object()) return {};
    const std::chrono::duration<double> since = Clock::now() - asked;
    for (const nlohmann::json& rank : live.value("ranks", nlohmann::json::array()))
      if (rank.value("snapshot_step", nlohmann::json()).is_number() && rank["snapshot_step"] >= step &&
          rank.value("snapshot_age_seconds", since.count()) < since.count())
        return rank["snapshot_step"].get<std::uint64_t>();
    std::this_thread::sleep_for(kLookPeriod);
  }
  return {};
}

int take_snapshot(LiveJob& job, const rendezvous::Act& act) {
  const nlohmann::json before = job.status();
  if (!has_steps(before)) return tell("not done: no rank has reported a step, so none can be asked to save.", kRefused);
  const auto asked = Clock::now();
  const rendezvous::ActResult answer = job.act(act);
  if (!answer.done) return tell("not done: " + answer.text + ".", kRefused);
  const auto step = reported_snapshot(job, before["step"].get<std::uint64_t>(), asked);
  if (!step)
    return tell("not done: no rank has reported a snapshot within " + std::to_string(kSnapshotLimit.count()) +
                    " s. A program saves when it is asked to if it uses the worker channel for that (docs/ctl.md).",
                kRefused);
  return confirm(act, "step " + std::to_string(*step) + " is saved, and training goes on");
}

int carry_out(const CtlWords& words) {
  LiveJob job(JobWords{.handle = words.job, .access = words.access}, words.stacks ? Purpose::look : Purpose::act);
  if (words.stacks) {
    const std::string text = job.stacks();
    return text.empty() ? tell("the job has ended.", kInternalError) : (print_text(stdout, text), kSuccess);
  }
  rendezvous::Act act = words.act;
  act.by = own_name();
  if (act.kind == rendezvous::ActKind::snapshot) return take_snapshot(job, act);
  const rendezvous::ActResult answer = job.act(act);
  if (!answer.done) return tell("not done: " + answer.text + ".", kRefused);
  return confirm(act, answer.text);
}

}  // namespace

int control_job(const std::vector<std::string>& all) {
  const CtlWords words = read_ctl_words(all);
  if (!words.answer.empty()) return print_text(stdout, words.answer), kSuccess;
  if (!words.mistake.empty()) return tell(words.mistake, kUsage);
  try {
    return carry_out(words);
  } catch (const JobRefused& refused) {
    return tell(refused.what(), kUsage);
  } catch (const UsageError& error) {
    return tell(error.what(), kUsage);
  } catch (const Error& error) {
    return tell(error.what(), kRendezvousImpossible);
  }
}

}  // namespace ddprun::launcher
