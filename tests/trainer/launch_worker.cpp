// A program that launches itself, for launch_test: launch_worker WHAT [OPTION=VALUE...]. Prints what launch() returned,
// or how it failed.
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "ddprun/collectives.h"
#include "ddprun/launch.h"

using nlohmann::json;

namespace {

constexpr std::size_t kManyBytes = 5'000'000;

void say(const std::string& words) {
  std::printf("%s\n", words.c_str());
  std::fflush(stdout);
}

json with_group(const std::function<json(const ddprun::ProcessGroup&)>& function) {
  const auto group = ddprun::init_process_group();
  json result = function(group);
  ddprun::destroy_process_group();
  return result;
}

json sum(const json& arguments) {
  return with_group([&](const ddprun::ProcessGroup& group) -> json {
    const auto tensor = torch::tensor(arguments.value("each", 1) * (group.rank() + 1));
    ddprun::all_reduce(tensor);
    return {{"sum", tensor.item<int>()}, {"rank", group.rank()}, {"world", group.world_size()}};
  });
}

// Rank 1 fails while the others wait for it in a collective.
json fail(const json& arguments) {
  return with_group([&](const ddprun::ProcessGroup& group) -> json {
    if (group.rank() == 1) {
      std::fprintf(stderr, "rank 1's last words\n");
      if (arguments == "kill") raise(SIGKILL);
      throw std::out_of_range("no such luck");
    }
    ddprun::barrier(group);
    return nullptr;
  });
}

json wait_forever(const json&) {
  say("up " + std::string(std::getenv("RANK")));
  for (;;) pause();
}

// Told to stop, it takes the time until the file is there.
json stop_slowly(const json&) {
  static volatile std::sig_atomic_t received = 0;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { received = 1; });
  const std::string rank = std::getenv("RANK"), go = std::string(std::getenv("TMPDIR")) + "/go";
  say("up " + rank);
  while (!received) usleep(1000);
  say("told " + rank);
  while (access(go.c_str(), F_OK) != 0) usleep(1000);
  say("bye " + rank);
  return nullptr;
}

json large(const json& arguments) {
  const std::string text = arguments.at("text");
  return {{"text", text}, {"nan", std::nan("")}, {"infinity", -std::numeric_limits<double>::infinity()}};
}

json nested(const json&) { return ddprun::launch(sum, {.processes_per_machine = 2}); }

json who(const json&) { return getpid(); }

ddprun::LaunchOptions options_from(int argc, char** argv) {
  ddprun::LaunchOptions options{.processes_per_machine = 2};
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i], name = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
    if (name == "processes") options.processes_per_machine = std::stoi(value);
    if (name == "machines") options.machines = std::stoi(value);
    if (name == "machine_rank") options.machine_rank = std::stoi(value);
    if (name == "dist_url") options.dist_url = value;
    if (name == "timeout_ms") options.timeout = std::chrono::milliseconds(std::stoi(value));
    if (name == "max_restarts") options.max_restarts = std::stoi(value);
    if (name == "ddprun") options.ddprun = value;
    if (name == "argument") options.ddprun_arguments.push_back(value);
  }
  return options;
}

json run(const std::string& what, const ddprun::LaunchOptions& options) {
  if (what == "sum") return ddprun::launch(sum, options, {{"each", 10}});
  if (what == "throw" || what == "kill") return ddprun::launch(fail, options, what);
  if (what == "wait") return ddprun::launch(wait_forever, options);
  if (what == "slow") return ddprun::launch(stop_slowly, options);
  if (what == "setup") {
    if (!ddprun::is_launched_worker()) say("set up");
    return ddprun::launch([](const json&) -> json { return ddprun::is_launched_worker(); }, options);
  }
  if (what == "nested") return ddprun::launch(nested, options);
  if (what == "large") {
    const std::string text(kManyBytes, '\xff');  // no UTF-8
    const json result = ddprun::launch(large, options, {{"text", text}});
    return {{"same", result["text"] == text},
            {"nan", std::isnan(result["nan"].get<double>())},
            {"infinity", result["infinity"] == -std::numeric_limits<double>::infinity()}};
  }
  if (what == "alone") return ddprun::launch(who, options) == getpid() ? "here" : "elsewhere";
  if (what == "exit") return ddprun::launch([](const json&) -> json { _exit(0); }, options);
  // Each later call depends on the one before it.
  const json first = ddprun::launch(
      [](const json&) -> json {
        say("the first one runs");
        return 7;
      },
      options);
  std::string second;
  try {
    ddprun::launch(fail, options, "throw");
  } catch (const ddprun::LaunchFailed& failed) {
    second = failed.what();
  }
  const bool failed = second.find("no such luck") != std::string::npos;
  return {{"first", first},
          {"failed", failed},
          {"third", ddprun::launch(sum, options, {{"each", failed ? first.get<int>() : 0}})}};
}

}  // namespace

int main(int argc, char** argv) try {
  const json result = run(argv[1], options_from(argc, argv));
  say("returned " + result.dump());
  return 0;
} catch (const ddprun::LaunchFailed& failed) {
  say("failed with " + std::to_string(failed.exit_code()) + "\n" + failed.what());
  return failed.exit_code();
} catch (const std::exception& error) {
  say(std::string("error: ") + error.what());
  return 99;
}
