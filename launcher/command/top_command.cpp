#include "launcher/command/top_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <system_error>

#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/running/live_job.h"
#include "launcher/view/stacks_text.h"
#include "launcher/view/terminal.h"
#include "launcher/view/top_view.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/thread.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kEvery = 1s;
constexpr auto kPatience = 50ms;  // for an answer that is under way

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// What `ddprun status --json` has written, or the "live" of it.
nlohmann::json read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError("cannot read " + path, "it is no file, or may not be read");
  nlohmann::json all = parse_json(std::string{std::istreambuf_iterator<char>(file), {}});
  if (all.is_object() && all.contains("live")) all = all["live"];
  if (!all.is_object() || !all.contains("ranks") || !all.contains("waits_for"))
    throw UsageError("cannot show " + path, "it is not what ddprun status --json prints for a running job");
  return all;
}

// Asks in the background, one question at a time.
template <class Answer>
class Asked {
 public:
  void ask(std::function<Answer()> question) try {
    answer_ = std::async(std::launch::async, std::move(question));
  } catch (const std::system_error& error) {
    std::promise<Answer> failed;
    failed.set_exception(std::make_exception_ptr(Error("cannot ask the job", no_thread(error))));
    answer_ = failed.get_future();
  }
  bool is_under_way() const { return answer_.valid(); }
  bool has_come() const { return answer_.valid() && answer_.wait_for(0s) == std::future_status::ready; }
  Answer take() { return answer_.get(); }

 private:
  std::future<Answer> answer_;
};

class Top {
 public:
  // `status`: with history or without; `drain` takes a node and returns what became of it.
  Top(std::function<nlohmann::json(bool)> status, std::function<std::string()> stacks,
      std::function<std::string(const std::string&)> drain)
      : look_(terminal_look(own_environment())),
        status_(std::move(status)),
        stacks_(std::move(stacks)),
        drain_(std::move(drain)),
        view_(look_.unicode) {}

  // How it ended, if not by the user. The terminal is then as it was.
  std::string run() {
    terminal_.emplace(look_);
    while (!ended_) {
      const TimePoint now = Clock::now();
      if (now >= ask_at_ && !asked_.is_under_way()) {
        const bool with_history = TopView::shows_history(terminal_->size());
        asked_.ask([this, with_history] { return status_(with_history); });
        ask_at_ = now + kEvery;
      }
      take_answers();
      const Size size = terminal_->size();
      terminal_->show(view_.frame(size), size);
      if (!ended_) take_keys(size);
    }
    terminal_.reset();
    return problem_;
  }

 private:
  void take_answers() {
    try {
      if (asked_.has_come()) {
        nlohmann::json live = asked_.take();
        if (live.is_null()) return end("the job has ended.");
        view_.take(std::move(live), seconds_now());
      }
    } catch (const Error& error) {
      view_.set_problem(error.what());
    }
    try {
      if (asked_stacks_.has_come()) view_.show_text(stacks_title_, stacks_of_rank(asked_stacks_.take(), stacks_rank_));
    } catch (const Error& error) {
      view_.show_text(stacks_title_, error.what());
    }
    try {
      if (asked_drain_.has_come()) view_.show_text(drain_title_, asked_drain_.take());
    } catch (const Error& error) {
      view_.show_text(drain_title_, error.what());
    }
  }

  void take_keys(Size size) {
    const bool awaits = asked_.is_under_way() || asked_stacks_.is_under_way() || asked_drain_.is_under_way();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(ask_at_ - Clock::now());
    bool input_ended = false;
    const std::string typed = terminal_->typed(awaits ? kPatience : std::clamp(left, 0ms, 1000ms), input_ended);
    ended_ |= input_ended;
    for (const Key key : keys_of(typed)) {
      const TopView::Wish wish = view_.on(key, size);
      ended_ |= wish == TopView::Wish::quit;
      if (wish == TopView::Wish::stacks && !asked_stacks_.is_under_way()) ask_for_stacks();
      if (wish == TopView::Wish::drain && !asked_drain_.is_under_way()) drain();
    }
  }

  void ask_for_stacks() {
    stacks_rank_ = view_.selected_rank();
    stacks_title_ = stacks_rank_ ? "rank " + std::to_string(*stacks_rank_) : "all ranks";
    view_.show_text(stacks_title_, "Taking stacks ...");
    asked_stacks_.ask(stacks_);
  }

  void drain() {
    const TopView::DrainedNode node = view_.drained_node();
    drain_title_ = "drain " + node.name;
    asked_drain_.ask([this, node] { return drain_(node.argument); });
  }

  void end(const std::string& problem) {
    problem_ = problem;
    ended_ = true;
  }

  const TerminalLook look_;
  std::function<nlohmann::json(bool with_history)> status_;
  std::function<std::string()> stacks_;
  std::function<std::string(const std::string&)> drain_;
  std::optional<Terminal> terminal_;
  TopView view_;
  Asked<nlohmann::json> asked_;
  Asked<std::string> asked_stacks_, asked_drain_;
  std::optional<int> stacks_rank_;
  std::string stacks_title_, drain_title_;
  TimePoint ask_at_ = {};
  bool ended_ = false;
  std::string problem_;
};

// A question that is still under way would delay the end, and nobody wants its answer.
[[noreturn]] void leave() {
  std::fflush(stdout);
  std::_Exit(kSuccess);
}

}  // namespace

void show_top(const JobWords& words) {
  std::optional<LiveJob> job;
  if (words.from.empty()) job.emplace(words);
  const auto status = [&](bool with_history) {
    if (!job) return read_file(words.from);
    return with_history ? job->status_with_history() : job->status();
  };
  std::optional<LiveJob> stacks_job = job;  // asked at the same time
  const auto stacks = [&] { return stacks_job ? stacks_job->stacks() : std::string("A file has no stacks.\n"); };
  std::optional<LiveJob> acted_on = job;
  const auto drain = [&](const std::string& node) {
    if (!acted_on) return std::string("A file has no nodes to drain.\n");
    const rendezvous::ActResult answer = acted_on->act({rendezvous::ActKind::drain, node, 0, 0, own_name()});
    return (answer.done ? "" : "Not done: ") + answer.text + ".\n";
  };
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    TopView view;
    nlohmann::json live = status(false);
    if (live.is_null()) throw Error("cannot ask the job", "it has just ended");
    view.take(std::move(live), seconds_now());
    return print_text(stdout, view.plain());
  }
  if (!words.from.empty()) read_file(words.from);  // a wrong file is told before the screen changes
  Top top(status, stacks, drain);
  const std::string end = top.run();
  if (!end.empty()) print_line(stdout, "ddprun top: " + end);
  leave();
}

}  // namespace ddprun::launcher
