#include "launcher/ssh/host_list.h"

#include "launcher/ssh/tree.h"
#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Hosts = std::vector<HostEntry>;

Hosts hosts_of(const std::string& list) {
  const auto read = read_host_list(list);
  INFO((std::holds_alternative<settings::Wrong>(read) ? std::get<settings::Wrong>(read).complaint : ""));
  REQUIRE(std::holds_alternative<Hosts>(read));
  return std::get<Hosts>(read);
}

std::string wrong_list(const std::string& list) {
  const auto read = read_host_list(list);
  return std::holds_alternative<settings::Wrong>(read) ? std::get<settings::Wrong>(read).complaint : "";
}

// The only sentence about a file with this line behind a good one.
std::string wrong_line(const std::string& line) {
  const HostFile file = read_host_file("hosts", "good\n" + line + "\n");
  REQUIRE(file.mistakes.size() == 1);
  return file.mistakes.front();
}

}  // namespace

TEST_CASE("a list of hosts has names and numbers of workers", "[ssh]") {
  CHECK(hosts_of("").empty());
  CHECK(hosts_of("a") == Hosts{{"a", {}}});
  CHECK(hosts_of("a:2,me@b.example-1:1,10.0.0.7") == Hosts{{"a", 2}, {"me@b.example-1", 1}, {"10.0.0.7", {}}});
  CHECK(hosts_of("[fd99::1]:4,me@[fe80::1%eth0]") == Hosts{{"fd99::1", 4}, {"me@fe80::1%eth0", {}}});
}

TEST_CASE("a wrong list of hosts is refused with what is wrong in it", "[ssh]") {
  CHECK_THAT(wrong_list("a,,b"), Catch::Contains("it takes a host's name"));
  CHECK_THAT(wrong_list("a:0"), Catch::Contains("'0' is no number of workers") && Catch::Contains("as in a:2"));
  CHECK_THAT(wrong_list("a:many"), Catch::Contains("'many'"));
  CHECK_THAT(wrong_list("a:"), Catch::Contains("''"));
  CHECK_THAT(wrong_list("a:5000"), Catch::Contains("from 1 to 4096"));
  CHECK_THAT(wrong_list("fd99::1"), Catch::Contains("write an IPv6 address in brackets"));
  CHECK_THAT(wrong_list("[fd99::1"), Catch::Contains("no ']'"));
  CHECK_THAT(wrong_list("[fd99::1]2"), Catch::Contains("'2' behind its address"));
  CHECK_THAT(wrong_list("[a]"), Catch::Contains("brackets"));
  CHECK_THAT(wrong_list("a,b,a"), Catch::Contains("it names a twice"));
  CHECK_THAT(wrong_list("@a"), Catch::Contains("neither HOST nor USER@HOST"));
  CHECK_THAT(wrong_list("me@"), Catch::Contains("neither HOST nor USER@HOST"));
  // None of them reaches ssh as an option or a shell as a command.
  for (const char* list : {"-oProxyCommand=x", "a;b", "$(a)", "a b", "a`b`", "me@-x@a"})
    CHECK(!wrong_list(list).empty());
}

TEST_CASE("host files of DeepSpeed, Open MPI and MPICH are read", "[ssh]") {
  const HostFile file = read_host_file("hosts",
                                       "# a comment\n\n  a slots=4\nb slots=4 max_slots=8   # another\r\n"
                                       "c:2\nme@d\n[fd99::1]:3\ne slots = 2\nf max-slots=4 slots=2");
  CHECK(file.mistakes.empty());
  CHECK(file.hosts == Hosts{{"a", 4}, {"b", 4}, {"c", 2}, {"me@d", {}}, {"fd99::1", 3}, {"e", 2}, {"f", 2}});
}

TEST_CASE("a wrong line of a host file is named, and what it should be", "[ssh]") {
  CHECK_THAT(wrong_line("a slot=4"),
             Catch::StartsWith("hosts:2: 'slot' is unknown") && Catch::EndsWith("Did you mean 'slots'?"));
  CHECK_THAT(wrong_line("a slots=x"),
             Catch::Contains("'x' is no number of workers") && Catch::Contains("as in slots=2."));
  CHECK_THAT(wrong_line("a:2 slots=2"), Catch::Contains("twice"));
  CHECK_THAT(wrong_line("a b"), Catch::Contains("'b' is unexpected: it takes one host per line"));
  CHECK_THAT(wrong_line("slots=2"), Catch::Contains("where a host's name is expected"));
  CHECK_THAT(wrong_line("a slots=9 max_slots=8"), Catch::Contains("slots is 9, more than its max_slots, 8."));
  CHECK_THAT(wrong_line("good slots=2"), Catch::Contains("good was named before"));
  CHECK_THAT(read_host_file("hosts", "# none\n").mistakes.at(0), Catch::Contains("hosts names no host"));
  CHECK(read_host_file("hosts", "a;b\nc d\n").mistakes.size() == 2);
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
