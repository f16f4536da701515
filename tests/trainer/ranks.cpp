#include "tests/trainer/ranks.h"

#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr std::chrono::seconds kLimit{60};

std::string with_rank(const std::string& text, int rank) {
  return std::regex_replace(text, std::regex("\\{rank\\}"), std::to_string(rank));
}

}  // namespace

Ranks::Ranks(int count, Words argv, Environment env) {
  env.insert({{"WORLD_SIZE", std::to_string(count)},
              {"LOCAL_WORLD_SIZE", std::to_string(count)},
              {"MASTER_ADDR", "127.0.0.1"},
              {"MASTER_PORT", std::to_string(free_port())},
              {"OMP_NUM_THREADS", "1"},
              {"RANK", "{rank}"},
              {"LOCAL_RANK", "{rank}"}});
  if (argv.front() == venv_python()) {  // one process forks them
    argv.insert(argv.begin() + 1, {source_folder() + "/tests/trainer/forked_ranks.py", std::to_string(count)});
    commands_.push_back(std::make_unique<Command>(argv, CommandOptions{.env = env}));
    return;
  }
  for (int rank = 0; rank < count; ++rank) start(rank, argv, env);
}

Ranks Ranks::by_hand(const std::vector<int>& ranks, const Words& argv) {
  Environment env = kOneThread.env;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    env[name] = std::nullopt;
  Ranks started;
  for (const int rank : ranks) started.start(rank, argv, env);
  return started;
}

void Ranks::start(int rank, const Words& argv, const Environment& env) {
  Words own_argv;
  for (const auto& word : argv) own_argv.push_back(with_rank(word, rank));
  Environment own_env;
  for (const auto& [name, value] : env) own_env[name] = value ? std::optional(with_rank(*value, rank)) : std::nullopt;
  commands_.push_back(std::make_unique<Command>(own_argv, CommandOptions{.env = own_env}));
}

std::vector<Ended> Ranks::wait_all() {
  std::vector<Ended> ends;
  for (auto& command : commands_) ends.push_back(command->wait_exit(kLimit));
  return ends;
}

Ended Ranks::wait_all_good() {
  const std::vector<Ended> ends = wait_all();
  for (const auto& end : ends) CHECK(end == exited(0));
  return ends.front();
}

std::string Ranks::wait_all_refused(int code) {
  const std::vector<Ended> ends = wait_all();
  for (const Ended& end : ends) {
    CHECK(end == exited(code));
    CHECK(end.err == ends.front().err);
  }
  return ends.front().err;
}

Environment each_on_its_own_node() {
  return {{"GROUP_RANK", "{rank}"},       {"LOCAL_RANK", "0"},        {"LOCAL_WORLD_SIZE", "1"},
          {"NCCL_HOSTID", "half-{rank}"}, {"NCCL_NET", "Socket"},     {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_NVLS_ENABLE", "0"},      {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_CUMEM_HOST_ENABLE", "0"}};
}

std::string program(const std::string& name) {
  const char* folder = std::getenv("DDPRUN_TEST_PROGRAMS");
  return std::string(folder ? folder : programs_folder()) + "/" + name;
}

Words train_with(Words arguments) {
  arguments.insert(arguments.begin(), {program("train"), "--device=cpu"});
  return arguments;
}

Ended run_ranks(int count, Words arguments) { return Ranks(count, train_with(std::move(arguments))).wait_all_good(); }

Ended run_alone(Words arguments) { return run(train_with(std::move(arguments)), kLimit, kOneThread); }

Words under_ddprun(const Words& options, const Words& command) {
  return with(with({program("ddprun")}, options), command);
}

namespace {

Words lines_with(const std::string& text, const char* beginning) {
  const std::regex wanted(beginning), speed(", [0-9]+ samples/s$");
  std::istringstream in(text);
  Words lines;
  for (std::string line; std::getline(in, line);)
    if (std::regex_search(line, wanted)) lines.push_back(std::regex_replace(line, speed, ""));
  return lines;
}

}  // namespace

Words step_lines(const std::string& text) { return lines_with(text, "^epoch .* step "); }

std::vector<double> losses_in(const std::string& text) {
  static const std::regex pattern("step [0-9]+ loss (\\S+)");
  std::vector<double> losses;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    losses.push_back(std::stod((*match)[1]));
  return losses;
}

Words epoch_lines(const std::string& text) { return lines_with(text, "^epoch "); }

}  // namespace ddprun::test
