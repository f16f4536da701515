#include "tests/trainer/ranks.h"
#include "tests/support/places.h"

#include <cstdlib>
#include <regex>
#include <sstream>

#include "tests/support/catch.h"

namespace ddprun::test {
namespace {

constexpr std::chrono::seconds kLimit{60};

std::string with_rank(const std::string& text, int rank) {
  return std::regex_replace(text, std::regex("\\{rank\\}"), std::to_string(rank));
}

}  // namespace

Ranks::Ranks(int count, std::vector<std::string> argv, Environment env) {
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
  for (int rank = 0; rank < count; ++rank) {
    std::vector<std::string> own_argv;
    for (const auto& word : argv) own_argv.push_back(with_rank(word, rank));
    Environment own_env;
    for (const auto& [name, value] : env) own_env[name] = value ? std::optional(with_rank(*value, rank)) : std::nullopt;
    commands_.push_back(std::make_unique<Command>(own_argv, CommandOptions{.env = own_env, .cwd = {}, .input = {}}));
  }
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

Environment each_on_its_own_node() {
  return {{"GROUP_RANK", "{rank}"},       {"LOCAL_RANK", "0"},        {"LOCAL_WORLD_SIZE", "1"},
          {"NCCL_HOSTID", "half-{rank}"}, {"NCCL_NET", "Socket"},     {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_NVLS_ENABLE", "0"},      {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_CUMEM_HOST_ENABLE", "0"}};
}

std::string program(const std::string& name) {
  const char* folder = std::getenv("DDPRUN_TEST_PROGRAMS");
  return std::string(folder ? folder : programs_folder()) + "/" + name;
}

std::vector<std::string> train_with(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("train"), "--device=cpu"});
  return arguments;
}

std::vector<std::string> step_lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (line.rfind("epoch ", 0) == 0 && line.find(" step ") != std::string::npos) lines.push_back(line);
  return lines;
}

}  // namespace ddprun::test
