// Unauthenticated peers in the network of a job that has a token: what they send, and what they receive.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr auto kAttackLimit = 60s;
constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

std::vector<std::string> python(const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), {"python3", "-B", (source_folder() + "/tests/e2e/") + program});
  return words;
}

std::vector<std::string> attacker(std::vector<std::string> words) { return python("attacker.py", std::move(words)); }

// Nodes 0 and 1 of a job with a token; host 2 may join, host 3 is an unauthenticated peer.
struct GuardedJob : HostJob {
  explicit GuardedJob(bool token = true) : HostJob(4, options(token)) {
    folder.write("token", std::string(kToken) + "\n");
    fs::permissions(folder / "token", fs::perms::owner_read);
  }
  static std::vector<std::string> options(bool token) {
    return joined({elastic_over_hosts("2:3"),
                   {"--rdzv-conf=last_call_timeout=1", "--control-port=29500"},
                   token ? Words{"--token-file=token"} : Words{}});
  }
  void start_two() {
    for (const int host : {0, 1}) start(host);
    wait_for_world(2);
  }
  Command as_stranger(std::vector<std::string> words) const {
    return Command(hosts.on(3, words), {.cwd = folder.path()});
  }
  // Ports there that listen to more than their own host.
  std::set<int> open_ports(int host) const {
    const Ended listing = run(hosts.on(host, {"ss", "-Hltn"}), 30s);
    CHECK(listing == exited(0));
    std::set<int> ports;
    for (const std::string& line : lines_of(listing.out)) {
      std::smatch match;
      if (std::regex_search(line, match, std::regex("^LISTEN +\\d+ +\\d+ +(\\S+):(\\d+) ")) &&
          !std::regex_search(match.str(1), std::regex("^(127\\.|\\[::ffff:127\\.|\\[::1\\])")))
        ports.insert(std::stoi(match[2]));
    }
    return ports;
  }
};

void check_nothing_was_answered(const Ended& attack) {
  CHECK(attack == exited(0));
  CHECK_THAT(attack.out, Catch::Contains("attempts made"));
  const std::regex good("all \\d+ attempts made|.*: refused|.*: closed, 0 bytes");
  for (const std::string& line : lines_of(attack.out)) {
    INFO(line);
    CHECK(std::regex_match(line, good));
  }
}

// The data of the segments on the control channel, or of all others.
std::string captured(const fs::path& file, bool control) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes;
  int from = 0, to = 0;
  std::size_t size = 0;
  while (in >> from >> to >> size && in.get() == '\n') {
    std::string payload(size, '\0');
    in.read(payload.data(), static_cast<std::streamsize>(size));
    if ((from == 29400 || to == 29400) == control) bytes += payload;
  }
  return bytes;
}

}  // namespace

TEST_CASE("with a token, no port that is open to the network answers an unauthenticated peer, and the job goes on",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  GuardedJob job;
  job.start_two();
  const Instant before = job.beats().back().when;
  std::vector<std::unique_ptr<Command>> attacks;
  for (const int host : {0, 1})
    for (const int port : job.open_ports(host))
      attacks.push_back(
          std::make_unique<Command>(job.hosts.on(3, attacker({"attack", Hosts::address(host), std::to_string(port)}))));
  CHECK(attacks.size() >= 2);  // the coordinator's port, and the other agent's
  for (auto& attack : attacks) check_nothing_was_answered(attack->wait_exit(kAttackLimit));
  CHECK(job.wait_for_world(2, std::max(before, job.beats().back().when)).round == 1);
  CHECK_THAT(job[0].err(), Catch::Contains("refused 10.99.0.13"));
  for (const int host : {0, 1}) {
    CHECK_THAT(job[host].err(), !Catch::Contains("MALLORY"));
    CHECK_THAT(job[host].err() + job[host].out(), !Catch::Contains(kToken));
  }
  job.all_end_well({0, 1});
}

TEST_CASE("without a token an unauthenticated peer that knows the first words is answered", "[hosts]") {
  if (!hosts_or_skip()) return;
  GuardedJob job(false);
  job.start_two();
  Command attack(job.hosts.on(3, attacker({"attack", Hosts::address(0), "29400", "a plain greeting and a message"})));
  attack.wait_for_output("a plain greeting and a message: (open|closed), [1-9]\\d* bytes", kAttackLimit);
  job.all_end_well({0, 1});
}

TEST_CASE("a crowd of silent unauthenticated peers keeps no member out", "[hosts]") {
  if (!hosts_or_skip()) return;
  GuardedJob job;
  job.start_two();
  Command crowd(job.hosts.on(3, attacker({"crowd", Hosts::address(0), "29400", "400"})));
  crowd.wait_for_output("400 connections", kAttackLimit);
  // Less than the time-out of unauthenticated peers: they are evicted as there are too many.
  change(job, "a node joins beside 400 unauthenticated peers", 3, 4500ms, [&] { job.start(2); });
  job.all_end_well({0, 1, 2});
}

TEST_CASE("a member's words, said again by an unauthenticated peer, lead nowhere", "[hosts]") {
  if (!hosts_or_skip()) return;
  GuardedJob job;
  job.start_two();
  Command relay(job.hosts.on(3, attacker({"relay", "29400", Hosts::address(0), "29400", job.folder / "heard"})));
  relay.wait_for_output("relay ready", 30s);
  job.start(2, {"--rdzv-endpoint=host3:29400"});  // a router in between must do no harm
  const Training training = job.wait_for_world(3);
  REQUIRE(eventually([&] { return fs::exists(job.folder / "heard.answer"); }, 30s));
  Command again(job.hosts.on(3, attacker({"replay", Hosts::address(0), "29400", job.folder / "heard"})));
  const Ended ended = again.wait_exit(kAttackLimit);
  CHECK(ended == exited(0));
  // The server cannot detect a replayed hello; only the key's owner can read its answer, and no greeting follows.
  constexpr int kEncryptedAlert = 24;
  const int answered = std::stoi(again.wait_for_output("replay: closed, (\\d+) bytes", 1s).at(1));
  CHECK(answered <= std::stoi(again.wait_for_output("first answer: (\\d+) bytes", 1s).at(1)) + kEncryptedAlert);
  CHECK(job.wait_for_world(3, job.beats().back().when).round == training.round);
  job.all_end_well({0, 1, 2});
}

TEST_CASE("an unauthenticated peer that poses as the coordinator learns nothing", "[hosts]") {
  if (!hosts_or_skip()) return;
  GuardedJob job;
  Command rogue(job.hosts.on(3, attacker({"pose", "29400"})));
  rogue.wait_for_output("posing", 30s);
  const Ended ended = job.start(1, {"--rdzv-endpoint=host3:29400", "--rdzv-conf=join_timeout=2"}).wait_exit(30s);
  CHECK(ended.code == 69);
  CHECK_THAT(ended.err, Catch::Contains("host3:29400"));
  rogue.wait_for_output("heard 0 bytes", 30s);
  CHECK_THAT(rogue.out(), !Catch::Matches("(.|\n)*heard [1-9](.|\n)*", Catch::CaseSensitive::Yes));
}

TEST_CASE("a node whose own words are led back to it takes them for nobody's", "[hosts]") {
  if (!hosts_or_skip()) return;
  GuardedJob job;
  Command mirror(job.hosts.on(3, attacker({"relay", "29400", Hosts::address(1), "29500", job.folder / "heard"})));
  mirror.wait_for_output("relay ready", 30s);
  const Ended ended = job.start(1, {"--rdzv-endpoint=host3:29400", "--rdzv-conf=join_timeout=2"}).wait_exit(30s);
  CHECK(ended.code == 69);
  CHECK_THAT(ended.err, Catch::Contains("it is this agent itself"));
}

TEST_CASE("who listens to the network hears names and programs without a token, and nothing with one", "[hosts]") {
  if (!hosts_or_skip()) return;
  const bool token = GENERATE(false, true);
  GuardedJob job(token);
  const auto file = job.folder / "capture";
  Command capture(job.hosts.on_switch(python("capture.py", {file})));
  capture.wait_for_output("ready", 30s);
  job.start_two();
  job.start(2);
  job.wait_for_world(3);
  job.all_end_well({0, 1, 2});
  const std::string control = captured(file, true);
  REQUIRE(control.size() > 1000);
  for (const std::string secret : {"host_worker", "host1", "\"type\"", "hello", "seat", "2:3", "job"}) {
    INFO(secret);
    CHECK((control.find(secret) == std::string::npos) == token);
  }
  // The store's data: by TLS on the control channel, or unencrypted at a separate port.
  const std::string elsewhere = captured(file, false);
  for (const std::string secret : {"all here", "so go on", kToken}) {
    INFO(secret);
    const bool read = (control + elsewhere).find(secret) != std::string::npos;
    CHECK(read == (!token && secret != kToken));
  }
}
