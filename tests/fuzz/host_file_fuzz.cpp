#include "launcher/ssh/host_list.h"
#include "launcher/ssh/ssh_command.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::fuzz;

namespace {

// No name is an option of ssh, or more than one word of a shell.
void can_be_reached(const std::vector<HostEntry>& hosts) {
  for (const HostEntry& host : hosts) {
    promise(!host.name.empty() && host.name.front() != '-', "a name is no option");
    promise(host.name.find_first_of(" \t\n'\"`$;&|<>()*?[]\\#~!") == std::string::npos, "a name is plain");
    promise(!host.workers || (*host.workers >= 1 && *host.workers <= kHostWorkersMax), "a host has some workers");
  }
}

}  // namespace

// Any text gives hosts or sentences.
DDPRUN_FUZZER(host_file) {
  const std::string text = text_of(data, size);
  const HostFile file = read_host_file("f", text);
  promise(!file.hosts.empty() || !file.mistakes.empty(), "an empty file is a mistake");
  can_be_reached(file.hosts);
  const auto list = read_host_list(text);
  if (const auto* hosts = std::get_if<std::vector<HostEntry>>(&list)) can_be_reached(*hosts);
  const auto command = read_command_words(text);
  if (const auto* words = std::get_if<std::vector<std::string>>(&command)) {
    const auto again = read_command_words(pasted(*words));
    const auto* same = std::get_if<std::vector<std::string>>(&again);
    promise(same && *same == *words, "words that are quoted are the same words");
  }
  return 0;
}
