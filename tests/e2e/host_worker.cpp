// A worker that trains: it meets the others in the store, as any framework does, and then appends a beat every few
// milliseconds to the file "beats" in its folder, a line "ns round rank world host". The clock is CLOCK_MONOTONIC,
// which all test hosts of a machine share, so beats of different hosts can be compared.
//
// It exits with 0 on SIGTERM, or once the file "go" exists. With the argument "shout" it also prints lines of 16,000
// letters. It may be forked from a template.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "rendezvous/prefork/template_process.h"
#include "rendezvous/store/client.h"

namespace {

[[gnu::used, gnu::retain]] const char kMark[] = "ddprun7prefork";  // as a program has that calls ddprun::prefork()

using namespace std::chrono_literals;

constexpr auto kBeatEvery = 10ms;
constexpr auto kStoreLimit = 60s;

void leave(int) {
  constexpr char kWords[] = "told\n";
  const auto ignored = write(STDOUT_FILENO, kWords, sizeof kWords - 1);
  _exit(ignored < 0 ? 1 : 0);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

// Returns when all ranks are here.
void meet(const std::string& host, int port, int world) {
  ddprun::rendezvous::Client store({.host = host, .port = static_cast<std::uint16_t>(port), .timeout = kStoreLimit});
  if (store.add("here", 1) == world) store.set("all here", "so go on");
  store.get("all here");
}

void beat_until_told(const std::string& who) {
  const int beats = open("beats", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  while (access("go", F_OK) != 0) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::string line = std::to_string(std::chrono::nanoseconds(now).count()) + " " + who + "\n";
    if (write(beats, line.data(), line.size()) < 0) std::exit(1);  // whole lines: the file is open for appending
    std::this_thread::sleep_for(kBeatEvery);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::serve_as_template(argc, argv);
  signal(SIGTERM, leave);
  const std::string round = variable("DDPRUN_ROUND"), rank = variable("RANK"), world = variable("WORLD_SIZE");
  const std::string place = variable("MASTER_ADDR");
  const std::string who = round + "/" + rank + "/" + world + "/" + variable("TORCHELASTIC_RESTART_COUNT");
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  say("up " + who + " " + place);
  try {
    meet(place, std::stoi(variable("MASTER_PORT")), std::stoi(world));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host_worker: %s\n", error.what());
    return 1;
  }
  say("trains " + who + " " + place);
  if (argc > 1 && argv[1] == std::string("shout"))
    std::thread([] {
      for (;; std::this_thread::sleep_for(500ms)) say(std::string(16'000, 'a'));
    }).detach();
  beat_until_told(round + " " + rank + " " + world + " " + host);
  say("done " + who);
}
