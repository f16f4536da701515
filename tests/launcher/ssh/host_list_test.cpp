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
