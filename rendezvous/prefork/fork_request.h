// What an agent tells the template of its workers when it asks for one, and how both write it.
//
// The agent sends one message on the template's socket, with these descriptors: the request as text (a memory file),
// the new worker's own socket, its stdin, stdout and stderr, and what `numbers` names. The template forks twice and
// lets the process between end, so that the worker is the agent's child. The worker takes its place (session,
// descriptors, CPUs), answers on its socket "<pid> <errno of its binding>", and waits for one byte: at end of file
// nobody wants it.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct ForkRequest {
  pid_t agent = 0;
  std::optional<pid_t> foreground_group;  // empty: the worker leads a session of its own
  std::vector<int> numbers;               // in the worker, of the descriptors after stderr
  std::vector<int> cpus, memory_nodes;    // as SpawnRequest's
  std::vector<std::string> argv, environment;
};

// The template's socket, as a number. Only a template has it.
constexpr const char* kTemplateVariable = "DDPRUN_TEMPLATE";
// A program that calls ddprun::prefork() contains this text: part of the function's name in object files.
constexpr const char* kPreforkMark = "ddprun7prefork";
constexpr std::size_t kDescriptorsMax = 16;  // of one request

// NUL-terminated fields: version, agent, foreground group or "", numbers, cpus, memory nodes (comma-separated), the
// count of arguments, the arguments, the environment.
std::string to_text(const ForkRequest& request);
std::optional<ForkRequest> parse_fork_request(std::string_view text);

}  // namespace ddprun
