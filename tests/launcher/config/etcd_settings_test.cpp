#include "launcher/config/etcd_settings.h"

#include "agent/etcd/etcd_access.h"
#include "launcher/plan/agent_options.h"
#include "launcher/plan/warnings.h"
#include "launcher/print/print_config.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/test.h"

namespace {

const Machine kEtcdMachine{8};

// A line of a job whose nodes find each other at etcd, every file holds its name and a line's end.
CommandLine etcd_line(const Words& more, bool others_may_read = false) {
  Words words{"--nnodes=1:2", "--rdzv-backend=etcd", "--rdzv-id=a", "p"};
  words.insert(words.begin() + 3, more.begin(), more.end());
  return read_command_line(words, {{}, [=](const std::string& name) {
                                     return FileText{name + "\n", others_may_read};
                                   }});
}

EtcdAccess access_of(const Words& more) {
  const CommandLine line = etcd_line(more);
  CHECK(line.mistakes.empty());
  CHECK(line.warnings.empty());
  CHECK(problems(line.config, kEtcdMachine).empty());
  REQUIRE(line.config.etcd);
  return *line.config.etcd;
}

AgentOptions options_of(const Config& config) {
  HostInfo host{"host", "", {}, "", {}};
  host.places = places_of(config);
  return agent_options(config, kEtcdMachine, {"/bin/p", {"p"}, false}, config.rdzv_id, host, round_policy(config));
}

}  // namespace

TEST_CASE("the members of etcd have a port, and one scheme for all", "[etcd]") {
  using Members = std::vector<HttpUrl>;
  CHECK(access_of({"--rdzv-endpoint=e1,e2:1,[fd00::1]:7"}).members ==
        Members{{false, "e1", 2379}, {false, "e2", 1}, {false, "fd00::1", 7}});
  for (const Words& words :
       {Words{"--rdzv-endpoint=https://e1/,https://e2:1"}, Words{"--rdzv-endpoint=e1,https://e2:1"},
        Words{"--rdzv-endpoint=https://e1,e2:1", "--rdzv-conf=protocol=https"},
        Words{"--rdzv-endpoint=e1,e2:1", "--rdzv-conf=protocol=https"}})
    CHECK(access_of(words).members == Members{{true, "e1", 2379}, {true, "e2", 1}});
  CHECK(access_of({"--rdzv-endpoint=http://e1", "--rdzv-conf=protocol=http"}).members == Members{{false, "e1", 2379}});
}

TEST_CASE("both of torchrun's spellings name the files for etcd", "[etcd]") {
  for (const char* conf :
       {"cacert=a,cert=c,key=k,etcd_prefix=/team/x", "ca_cert=a,ssl_cert=c,ssl_cert_key=k,prefix=/team/x"}) {
    const EtcdAccess access = access_of({"--rdzv-endpoint=https://e1", std::string("--rdzv-conf=") + conf});
    CHECK(access.pem.authority.value().text == "a\n");
    CHECK(access.pem.certificate.value().name == "c");
    CHECK(access.pem.key.value().text == "k\n");
    CHECK(access.prefix == "/team/x");
    CHECK(access.user.empty());
  }
}

TEST_CASE("user, password and times of etcd are those given, else the defaults", "[etcd]") {
  const EtcdAccess given =
      access_of({"--rdzv-endpoint=e1", "--rdzv-conf=user=u,password_file=p,silent_round=30,keep=2d,join_timeout=7"});
  CHECK(given.user == "u");
  CHECK(given.password.text == "p");
  CHECK(given.password.name == "p");
  CHECK(given.silent_round == 30s);
  CHECK(given.keep == std::chrono::hours(48));
  const EtcdAccess plain = access_of({"--rdzv-endpoint=e1"}), standard;
  CHECK(plain.prefix == standard.prefix);
  CHECK(plain.silent_round == standard.silent_round);
  CHECK(plain.keep == standard.keep);
  CHECK_FALSE(plain.pem.authority);
}

TEST_CASE("a password of etcd that others may read is warned of, and serves", "[etcd]") {
  const CommandLine line = etcd_line({"--rdzv-endpoint=e1", "--rdzv-conf=user=u,password_file=p"}, true);
  CHECK(line.mistakes.empty());
  CHECK(line.warnings ==
        Words{"--rdzv-conf names password_file=p, which other users may read: chmod 600 it, or they can "
              "write to etcd as u."});
  CHECK(line.config.etcd->password.text == "p");
}

TEST_CASE("a file for etcd that cannot be read is a mistake", "[etcd]") {
  const auto none = [](const std::string&) -> std::variant<FileText, Unreadable> { return Unreadable{"no such file"}; };
  const Words words{"--nnodes=2",
                    "--rdzv-backend=etcd",
                    "--rdzv-endpoint=https://e",
                    "--rdzv-id=a",
                    "--rdzv-conf=cacert=a,user=u,password_file=p",
                    "p"};
  CHECK(read_command_line(words, {{}, none}).mistakes ==
        Words{"--rdzv-conf names password_file, which cannot be read: no such file.",
              "--rdzv-conf names cacert=a, which cannot be read: no such file."});
}

TEST_CASE("one sentence says that etcd's old API is not used, or that etcd is not", "[etcd]") {
  CHECK(etcd_line({"--rdzv-endpoint=e1", "--rdzv-backend=etcd-v2"}).warnings ==
        Words{"--rdzv-backend is etcd-v2, but etcd's API v3 is used: v2 need not be enabled there."});
  const CommandLine one = etcd_line({"--nnodes=1", "--rdzv-endpoint=e1", "--rdzv-conf=cacert=gone"});
  CHECK(one.warnings == Words{"the job has one node (--nnodes): it runs without etcd."});
  CHECK(problems(one.config, kEtcdMachine).empty());
  CHECK_FALSE(one.config.etcd);
  CHECK_FALSE(options_of(one.config).meeting);
  const CommandLine alone = etcd_line({"--nnodes=1", "--standalone", "--rdzv-endpoint=e1"});
  CHECK(alone.warnings.empty());
  CHECK_FALSE(alone.config.etcd);
}

TEST_CASE("with etcd nodes have no place, and their ranks are a preference", "[etcd]") {
  const Words more{"--rdzv-endpoint=e1,e2", "--local-addr=10.0.0.4", "--control-port=7"};
  const CommandLine line = etcd_line(more);
  const AgentOptions options = options_of(line.config);
  REQUIRE(options.meeting);
  CHECK(options.meeting->etcd == line.config.etcd);
  CHECK(options.meeting->places.empty());
  CHECK(options.meeting->address == "10.0.0.4");
  CHECK(options.meeting->control_port == 7);
  CHECK(options.meeting->run_id == "a");
  CHECK(options.rdzv_backend == "etcd");
  CHECK_FALSE(options.requested_rank);
  CHECK_FALSE(round_policy(line.config).fixed_ranks);
  CHECK(options_of(etcd_line({"--rdzv-endpoint=e1", "--node-rank=1"}).config).requested_rank == 1);
}

TEST_CASE("a job of several nodes at etcd is open to who reaches them, wherever etcd is", "[etcd]") {
  const auto warned = [](const Config& config) {
    HostInfo host;
    host.places = places_of(config);
    return listed(warnings(config, {"/bin/p", {"p"}}, host), "and");
  };
  const Words here{"--rdzv-endpoint=127.0.0.1:1,e2"};
  CHECK_THAT(warned(etcd_line(here).config), Contains("anyone who can reach its nodes can join"));
  CHECK_THAT(warned(etcd_line({"--rdzv-endpoint=127.0.0.1"}).config), Contains("its nodes"));
  CHECK(warned(etcd_line({"--rdzv-endpoint=127.0.0.1", "--nnodes=1"}).config).empty());
  Config with_token = etcd_line(here).config;
  with_token.token = std::get<Token>(Token::parse(make_token()));
  CHECK(warned(with_token).empty());
  const auto of_c10d = [&](const std::string& endpoint) {
    return warned(
        read_command_line({"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint, "p"}, {}).config);
  };
  CHECK(of_c10d("127.0.0.1:1").empty());
  CHECK_THAT(of_c10d("node7:1"), Contains("anyone who can reach node7 can join"));
}

TEST_CASE("jobs that do not need etcd leave its keys alone", "[etcd]") {
  const auto never = [](const std::string&) -> std::variant<FileText, Unreadable> { return Unreadable{"no"}; };
  for (const Words& words : {Words{"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-conf=cacert=a,user=u", "p"},
                             Words{"--rdzv-conf=password_file=a", "p"},
                             Words{"--hosts=a,b", "--rdzv-backend=etcd", "--rdzv-endpoint=e1",
                                   "--rdzv-conf=protocol=https,cacert=a", "p"}}) {
    const CommandLine line = read_command_line(words, {{}, never});
    CHECK(line.mistakes.empty());
    CHECK(problems(line.config, kEtcdMachine).empty());
    CHECK_FALSE(line.config.etcd);
  }
}

TEST_CASE("a password among the settings of etcd is refused, wherever it comes from, and not shown", "[etcd]") {
  const std::vector<std::pair<std::string, std::string>> wrong{{"RDZV_ENDPOINT", "http://u:hunter2@e1"},
                                                               {"RDZV_ENDPOINT", "e1,u:hun,ter2@e2:2379"},
                                                               {"RDZV_CONF", "user=u,password=hunter2"},
                                                               {"RDZV_CONF", "passwd=x,hunter2"},
                                                               {"RDZV_CONF", "user=u:hunter2"}};
  for (const auto& [name, value] : wrong) {
    CAPTURE(name, value);
    const std::string option = name == "RDZV_CONF" ? "--rdzv-conf" : "--rdzv-endpoint";
    const CommandLine typed = read_command_line({"--nnodes=1:2", "--rdzv-backend=etcd", option + "=" + value, "p"}, {}),
                      inherited = read_command_line({"--rdzv-backend=etcd", "p"}, {{{"PET_" + name, value}}});
    for (const CommandLine* line : {&typed, &inherited}) {
      REQUIRE(line->mistakes.size() == 1);
      CHECK_THAT(line->mistakes[0], Contains("password_file=FILE") && !Contains("hun") && !Contains("ter2"));
    }
    CHECK_THAT(inherited.mistakes[0], StartsWith("PET_" + name + " in the environment holds "));
  }
}

TEST_CASE("what --print-config shows of etcd has no password", "[etcd]") {
  const std::string shown =
      print_config(etcd_line({"--rdzv-endpoint=e1", "--rdzv-conf=user=u,password_file=p"}).config, "");
  CHECK_THAT(shown, Contains("rdzv-backend = \"etcd\"") && Contains("rdzv-conf = \"user=u,password_file=p\""));
}
