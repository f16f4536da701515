#include "launcher/ssh/host_list.h"

#include "launcher/ssh/tree.h"
#include "tests/support/test.h"

namespace {

using Hosts = std::vector<HostEntry>;

Hosts hosts_of(const std::string& list) {
  const auto read = read_host_list(list);
  INFO((std::holds_alternative<settings::Wrong>(read) ? std::get<settings::Wrong>(read).complaint : ""));
  REQUIRE(std::holds_alternative<Hosts>(read));
  return std::get<Hosts>(read);
}

Hosts file_hosts(const std::string& text) {
  const HostFile file = read_host_file("hosts", text);
  CHECK(file.mistakes == Words{});
  return file.hosts;
}

// The only one.
std::string file_mistake(const std::string& text) {
  const HostFile file = read_host_file("hosts", text);
  return file.mistakes.size() == 1 ? file.mistakes.front() : std::to_string(file.mistakes.size()) + " mistakes";
}

}  // namespace

TEST_CASE("a list of hosts has names and numbers of workers", "[ssh]") {
  CHECK(hosts_of("").empty());
  CHECK(hosts_of("a") == Hosts{{"a", {}}});
  CHECK(hosts_of("a:2,me@b.example-1:1,10.0.0.7") == Hosts{{"a", 2}, {"me@b.example-1", 1}, {"10.0.0.7", {}}});
  CHECK(hosts_of("[fd99::1]:4,me@[fe80::1%eth0]") == Hosts{{"fd99::1", 4}, {"me@fe80::1%eth0", {}}});
}

TEST_CASE("what is no host reaches neither ssh as an option nor a shell as a command", "[ssh]") {
  for (const char* list : {"-oProxyCommand=x", "a;b", "$(a)", "a b", "a`b`", "me@-x@a"})
    CHECK(std::holds_alternative<settings::Wrong>(read_host_list(list)));
}

TEST_CASE("host files of DeepSpeed, Open MPI and MPICH are read", "[ssh]") {
  const HostFile file = read_host_file("hosts",
                                       "# a comment\n\n  a slots=4\nb slots=4 max_slots=8   # another\r\n"
                                       "c:2\nme@d\n[fd99::1]:3\ne slots = 2\nf max-slots=4 slots=2");
  CHECK(file.mistakes.empty());
  CHECK(file.hosts == Hosts{{"a", 4}, {"b", 4}, {"c", 2}, {"me@d", {}}, {"fd99::1", 3}, {"e", 2}, {"f", 2}});
}

TEST_CASE("host files of DeepSpeed are read", "[ssh]") {
  CHECK(file_hosts("# comment\nworker-1 slots=4\n\n10.0.0.7 slots=2\n") == Hosts{{"worker-1", 4}, {"10.0.0.7", 2}});
  CHECK_THAT(file_mistake("a slots=4\nb slots=4\na slots=4\n"),
             Catch::Equals("hosts:3: a was named before: give it all its workers on one line."));
}

TEST_CASE("host files of Open MPI are read", "[ssh]") {
  CHECK(
      file_hosts("a slots=2 max_slots=4 # comment\nb max-slots=3\nc cpu=5\nd count=6 slots_max=6\nme@e slots = 1\n") ==
      Hosts{{"a", 2}, {"b", 3}, {"c", 5}, {"d", 6}, {"me@e", 1}});
  CHECK(file_hosts("a\na\nb\n") == Hosts{{"a", 2}, {"b", 1}});  // a line is a slot where hosts are repeated
  CHECK(file_hosts("a slots=4\na\nb slots=1\n") == Hosts{{"a", 5}, {"b", 1}});
  CHECK(file_hosts("a slots=4\nb slots=4\n^a\n") == Hosts{{"b", 4}});
  CHECK_THAT(file_mistake("^a\na"), Catch::Equals("hosts names no host: it takes one host per line, as in a slots=2."));
  CHECK_THAT(file_mistake("a slots=8 max_slots=4"), Catch::Equals("hosts:1: slots is 8, more than its max_slots, 4."));
  CHECK_THAT(file_mistake("a slots=4 port=2222"), Contains("a port is ssh's") && Contains("--ssh \"ssh -p 2222\""));
  CHECK_THAT(file_mistake("+n1 slots=4"), Contains("'+n1' is a host of a scheduler's job: name the host itself."));
  CHECK_THAT(file_mistake("rank 0=a slot=1:0"), StartsWith("hosts:1: "));
}

TEST_CASE("host files of Hydra are read", "[ssh]") {
  CHECK(file_hosts("# comment\na:4 binding=user:0,1\nb:3 user=me # more\nc\n") ==
        Hosts{{"a", 4}, {"me@b", 3}, {"c", {}}});
  CHECK(file_hosts("a:2\nb:2\na:1\n") == Hosts{{"a", 3}, {"b", 2}});
  CHECK(file_hosts("a\na:2\n") == Hosts{{"a", 3}});
  CHECK_THAT(file_mistake("me@a:2 user=you"), Catch::Equals("hosts:1: it gives the user twice."));
  CHECK_THAT(file_mistake("a user=-oProxyCommand=x"), StartsWith("hosts:1: '-oProxyCommand=x@a' begins with a dash"));
  CHECK_THAT(file_mistake("a user="), Catch::Equals("hosts:1: user= takes a name."));
}

TEST_CASE("a node file of PBS has a line per worker, in any order", "[ssh]") {
  CHECK(file_hosts("n1\nn2\nn1\nn2\nn1\n") == Hosts{{"n1", 3}, {"n2", 2}});
  CHECK(file_hosts("n1.cluster\nn2.cluster\n") ==
        Hosts{{"n1.cluster", {}}, {"n2.cluster", {}}});  // as many as asked for
  std::string many;
  for (int i = 0; i <= kHostWorkersMax; ++i) many += "n1\n";
  CHECK_THAT(file_mistake(many), Contains("n1 has more than 4096 workers"));
}

TEST_CASE("node lists of Slurm are read, in files and in --hosts", "[ssh]") {
  const Hosts nodes{{"n01", {}}, {"n02", {}}, {"n07", {}}, {"login2", {}}};
  CHECK(file_hosts("n01\nn02\nn07\nlogin2\n") == nodes);  // scontrol show hostnames
  CHECK(file_hosts("n[01-02,07],login2\n") == nodes);     // SLURM_JOB_NODELIST
  CHECK(hosts_of("n[01-02,07],login2") == nodes);
  CHECK(hosts_of("me@n[1-2]:4,b:1") == Hosts{{"me@n1", 4}, {"me@n2", 4}, {"b", 1}});
  CHECK(file_hosts("n[1-2]-ib slots=8\n") == Hosts{{"n1-ib", 8}, {"n2-ib", 8}});
  CHECK_THAT(file_mistake("n[1-"), Catch::Equals("hosts:1: in 'n[1-' a '[' has no ']'."));
  CHECK_THAT(file_mistake("n[2-1]"), Contains("'2-1' is not a range"));
  CHECK_THAT(file_mistake("n[1-9999]"), Contains("it takes at most 4096 hosts"));
  CHECK_THAT(file_mistake("n[1-2] n3"), Contains("'n3' is unexpected"));
}

TEST_CASE("a tree has equal branches, and as many as its fan-out", "[ssh]") {
  CHECK(branches(0, 4).empty());
  for (std::size_t count = 1; count < 70; ++count)
    for (const std::size_t fan_out : {1, 2, 5, 32, 100}) {
      const auto parts = branches(count, fan_out);
      CHECK(parts.size() == std::min(count, fan_out));
      std::size_t next = 0;
      for (const Branch& part : parts) {
        CHECK(part.first == next);
        CHECK((part.size == count / parts.size() || part.size == count / parts.size() + 1));
        next += part.size;
      }
      CHECK(next == count);
    }
}
