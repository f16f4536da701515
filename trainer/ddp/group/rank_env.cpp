#include "trainer/ddp/group/rank_env.h"

#include <unistd.h>

#include <charconv>
#include <optional>
#include <utility>

#include "trainer/ddp/group/task_ranks.h"

namespace ddprun {
namespace {

class Reader {
 public:
  explicit Reader(Environment environment) : environment_(std::move(environment)) {}

  std::optional<std::string> text(const std::string& name) const {
    const auto it = environment_.find(name);
    return it == environment_.end() || it->second.empty() ? std::nullopt : std::optional(it->second);
  }

  int number(const std::string& name, int fallback, int min, int max) {
    const auto value = text(name);
    if (!value) return fallback;
    int result = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, result);
    if (error == std::errc() && stop == end && result >= min && result <= max) return result;
    problems.push_back(name + " is '" + *value + "' but must be a whole number from " + std::to_string(min) + " to " +
                       std::to_string(max) + ".");
    return fallback;
  }

  std::vector<std::string> problems;

 private:
  const Environment environment_;
};

// Upper limits: far above any real job, low enough to catch a port in the wrong variable.
constexpr int kWorldSizeMax = 1 << 20, kRoundMax = 1 << 30, kPortMax = 65535;

void check_ranks(const RankEnv& env, std::vector<std::string>& problems) {
  auto within = [&](const char* rank_name, int rank, const char* size_name, int size) {
    if (rank >= size)
      problems.push_back(std::string(rank_name) + " is " + std::to_string(rank) + " but " + size_name + " is " +
                         std::to_string(size) + ": ranks count from 0 to " + std::to_string(size - 1) + ".");
  };
  within("RANK", env.rank, "WORLD_SIZE", env.world_size);
  within("LOCAL_RANK", env.local_rank, "LOCAL_WORLD_SIZE", env.local_world_size);
}

void read_store(Reader& reader, RankEnv& env) {
  env.master_addr = reader.text("MASTER_ADDR").value_or("");
  env.master_port = static_cast<std::uint16_t>(reader.number("MASTER_PORT", 0, 1, kPortMax));
  env.route_addr = reader.text("DDPRUN_MASTER_ADDR").value_or(env.master_addr);
  env.agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (!reader.text(name))
      reader.problems.push_back(std::string("WORLD_SIZE is ") + std::to_string(env.world_size) + " but " + name +
                                " is not set: start the workers with ddprun, or set it for every one of them.");
}

}  // namespace

RankEnvResult read_rank_env(const Environment& environment, bool needs_store) {
  TaskRanks tasks = task_ranks(environment, needs_store);
  if (!tasks.problem.empty()) return {{}, {tasks.problem}};
  tasks.variables.insert(environment.begin(), environment.end());
  Reader reader(std::move(tasks.variables));
  RankEnv env;
  env.from_task = tasks.from;
  env.job = tasks.job;
  if (reader.text("RANK").has_value() != reader.text("WORLD_SIZE").has_value())
    reader.problems.push_back(
        "RANK and WORLD_SIZE go together, but only one of them is set: set both, or neither for one process.");
  env.rank = reader.number("RANK", 0, 0, kWorldSizeMax - 1);
  env.world_size = reader.number("WORLD_SIZE", 1, 1, kWorldSizeMax);
  // If started by hand without them, all ranks are taken to be on one machine.
  env.local_rank = reader.number("LOCAL_RANK", env.rank, 0, kWorldSizeMax - 1);
  env.local_world_size = reader.number("LOCAL_WORLD_SIZE", env.world_size, 1, kWorldSizeMax);
  if (reader.problems.empty()) check_ranks(env, reader.problems);
  env.local_given = reader.text("LOCAL_RANK") && reader.text("LOCAL_WORLD_SIZE");
  env.group_rank = reader.number("GROUP_RANK", -1, 0, kWorldSizeMax - 1);
  env.network_interface = reader.text("GLOO_SOCKET_IFNAME").value_or("");
  if (env.world_size > 1 && needs_store) read_store(reader, env);
  env.under_agent = reader.text("TORCHELASTIC_RUN_ID").has_value();
  const int restarts = reader.number("TORCHELASTIC_RESTART_COUNT", 0, 0, kRoundMax);
  env.round = reader.number("DDPRUN_ROUND", restarts + 1, 1, kRoundMax);
  return {env, reader.problems};
}

Environment process_environment() {
  Environment result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

}  // namespace ddprun
