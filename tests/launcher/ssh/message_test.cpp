#include "launcher/ssh/message.h"

#include "launcher/ssh/agent_command.h"
#include "launcher/ssh/connecting.h"
#include "launcher/ssh/handed_environment.h"
#include "launcher/ssh/repeated_lines.h"
#include "launcher/ssh/ssh_command.h"
#include "tests/support/test.h"

namespace {

const TimePoint t0{};

template <class Message>
bool arrives_down(const Message& message) {
  const auto read = decode_down(encode(DownMessage(message)));
  return read && std::get<Message>(*read) == message;
}

template <class Message>
bool arrives_up(const Message& message) {
  const auto read = decode_up(encode(UpMessage(message)));
  return read && std::get<Message>(*read) == message;
}

HostJobOrder order() {
  return {.hosts = {{2, "b", 4}, {3, "me@c", {}}},
          .ddprun = "/opt/d d/ddprun",
          .ssh = {"ssh", "-p", "22"},
          .fan_out = 7,
          .folder = "/home/\xff",  // a path is any bytes
          .environment = {{"PATH", "/bin:\xfe"}},
          .token = "secret",
          .config_name = "job.toml",
          .config_text = "max-restarts = 1\n",
          .options = {"--hosts=", "--rdzv-id=x"},
          .program = {"train", "", "--lr=1"},
          .stop_grace_ms = 2500,
          .shares_output = true,
          .sends_events = true};
}

Words words_in(const std::string& text) {
  const auto read = read_command_words(text);
  return std::holds_alternative<Words>(read) ? std::get<Words>(read) : Words{"wrong"};
}

}  // namespace

TEST_CASE("messages to and from hosts arrive as they were sent", "[ssh]") {
  CHECK(arrives_down(order()));
  CHECK(arrives_down(StartAgents{{{0, 1}, {5, 0}}, {"--nnodes=2"}}));
  CHECK(arrives_down(SendSignal{15}));
  CHECK(arrives_down(StillHere{}));
  CHECK(arrives_up(StillHere{}));
  CHECK(arrives_up(HostReady{4, "fd99::1", "10.0.0.1", 20001}));
  CHECK(arrives_up(HostRefused{4, "why.", true}));
  CHECK(arrives_up(HostOutput{70'000, 2, std::string("bytes \0 \xff\n", 10)}));
  CHECK(arrives_up(HostLost{4, "why"}));
  const auto read = decode_up(encode(UpMessage(HostEnded{4, true, {1, "report\nof two lines", {{3, 1, "b", -9}}}})));
  REQUIRE(read);
  const HostEnded& ended = std::get<HostEnded>(*read);
  CHECK(ended.index == 4);
  CHECK(ended.reported);
  CHECK(ended.end.exit_code == 1);
  CHECK(ended.end.message == "report\nof two lines");
  CHECK(*ended.end.first_failure == JobEnd::FirstFailure{3, 1, "b", -9});
}

TEST_CASE("what is no message is none", "[ssh]") {
  for (const std::string frame : {"", "x", "z{}", "j{}", "o123", "o1234\x07", "aa", "\xff"}) {
    CHECK_FALSE(decode_down(frame));
    CHECK_FALSE(decode_up(frame));
  }
  const std::string whole = encode(DownMessage(order()));
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(decode_down(whole.substr(0, size)));
  CHECK_FALSE(read_job_end("{}"));
  CHECK_FALSE(read_job_end(""));
}

TEST_CASE("a host's shell may print before its greeting", "[ssh]") {
  GreetingReader reader;
  const std::string all = "Welcome!\nddprun-node is not it\n" + to_line({"1.2.3", "/opt/d d/ddprun"}) + "\x01\x02";
  for (const char byte : all) {
    CHECK((reader.greeting() || &byte != &all.back()));
    reader.add({&byte, 1});
  }
  CHECK(reader.greeting()->version == "1.2.3");
  CHECK(reader.greeting()->path == "/opt/d d/ddprun");
  CHECK(reader.take_rest() == "\x01\x02");
  GreetingReader endless;
  endless.add(std::string(kNoiseMax + 1, 'x'));
  CHECK(endless.too_much());
}

TEST_CASE("the command of ssh is words as a shell has them", "[ssh]") {
  CHECK(words_in("ssh -p 2222  -i 'my key'") == Words{"ssh", "-p", "2222", "-i", "my key"});
  CHECK(words_in("a\\ b \"c 'd\" ''") == Words{"a b", "c 'd", ""});
  CHECK(words_in("ssh 'open") == Words{"wrong"});
  CHECK(words_in(" ") == Words{"wrong"});
  CHECK(words_in("''") == Words{"wrong"});
}

TEST_CASE("the printed command of ssh can be pasted, and runs ddprun at its path or in PATH", "[ssh]") {
  const TempFolder folder;
  const std::string show = "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\n";
  const std::string ssh = folder.write("show words", show, true).string();
  const auto command = ssh_command({ssh, "-p", "1"}, "me@b", "/o 'p/ddprun");
  std::string expected;
  for (const std::string& word : command)
    if (&word != &command.front()) expected += word + "\n";
  CHECK(test::run({"sh", "-c", pasted(command)}, 10s).out == expected);
  CHECK(expected.starts_with("-p\n1\n"));  // the user's own go first, as the first counts

  folder.write("there", show, true);
  folder.write("ddprun", "#!/bin/sh\necho in PATH $1\n", true);
  const auto at = [&](const std::string& path) {
    return test::run({"sh", "-c", ssh_command({"ssh"}, "b", path).back()}, 10s,
                     {.env = {{"PATH", folder.path().string() + ":/bin:/usr/bin"}}})
        .out;
  };
  CHECK(at((folder / "there").string()) == "ssh-node\n");
  CHECK(at((folder / "not there").string()) == "in PATH ssh-node\n");
}

TEST_CASE("a failed ssh is explained by its own last words", "[ssh]") {
  SshEnd end{{"ssh"}, "b",           "/opt/ddprun",
             "1.2",   {.code = 255}, {"banner", "ssh: connect to host b port 22: Connection refused\r", ""}};
  CHECK(ssh_failure(end) ==
        "cannot reach b by ssh: ssh: connect to host b port 22: Connection refused. Try: ssh -o BatchMode=yes b true");
  end.last_words = {};
  CHECK_THAT(ssh_failure(end), Catch::Contains("it exited with code 255 and said nothing"));
  end.ssh = {"ssh", "-p", "2222", "-i", "my key"};
  end.host = "me@b";
  CHECK_THAT(ssh_failure(end), EndsWith(". Try: ssh -p 2222 -i 'my key' -o BatchMode=yes me@b true"));
  CHECK(not_answering(end.ssh, "b") ==
        "cannot reach b by ssh: it does not answer. Try: ssh -p 2222 -i 'my key' -o BatchMode=yes b true");
  end.host = "b";
  end.status = {.code = 127};
  CHECK_THAT(ssh_failure(end), Catch::Contains("no ddprun on b: neither /opt/ddprun nor one in its PATH"));
  end.status = {.code = 2};
  end.last_words = {"ddprun: cannot run ssh-node."};
  CHECK_THAT(ssh_failure(end),
             Catch::Contains("ddprun does not start on b: ddprun: cannot run ssh-node. Install ddprun 1.2"));
  end.status = {.start_error = 2};
  CHECK_THAT(ssh_failure(end), Catch::Contains("cannot run ssh: ") && Catch::Contains("--ssh"));
  end.ssh = {"./reach", "-x"};
  CHECK_THAT(ssh_failure(end), Catch::Contains("cannot run ./reach: ") && Catch::Contains("--ssh"));
  CHECK(connection_loss({.code = 255}, {"client_loop: send disconnect: Broken pipe"}) ==
        "client_loop: send disconnect: Broken pipe");
  CHECK(connection_loss({.signal = 9}, {"words"}) == "ssh was killed by SIGKILL");
}

TEST_CASE("an agent gets the command's options, its own number of workers and its rank", "[ssh]") {
  CHECK(agent_words(order(), {{{2, 1}, {3, 2}}, {"--nnodes=3", "--master-port=7"}}, {"/dev/fd/4", "/dev/fd/5"}) ==
        Words{"--hosts=", "--rdzv-id=x", "--config=/dev/fd/4", "--nproc-per-node=4", "--nnodes=3", "--master-port=7",
              "--event-log-handler=file:/dev/fd/5", "--node-rank=1", "--", "train", "", "--lr=1"});
  HostJobOrder plain = order();
  plain.hosts = {{0, "a", {}}};
  plain.config_name = "";
  CHECK(words_to_check(plain) == Words{"--hosts=", "--rdzv-id=x", "--nnodes=1", "--", "train", "", "--lr=1"});
}

TEST_CASE("addresses are those that sshd names", "[ssh]") {
  CHECK(ssh_addresses("10.0.0.1 50000 10.0.0.2 22").client == "10.0.0.1");
  CHECK(ssh_addresses("fd99::1 50000 fd99::2 22").server == "fd99::2");
  CHECK(ssh_addresses("").server.empty());
  CHECK(ssh_addresses("10.0.0.1 50000").client.empty());
}

TEST_CASE("programs, libraries and how they communicate are handed on, a machine's own devices are not", "[ssh]") {
  for (const char* name : {"PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH", "NCCL_DEBUG", "GLOO_SOCKET_IFNAME",
                           "TORCH_LOGS", "TORCH_NCCL_BLOCKING_WAIT", "OMP_NUM_THREADS", "CUDA_LAUNCH_BLOCKING"})
    CHECK(is_handed_on(name));
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HOME", "USER", "DISPLAY", "SSH_AUTH_SOCK", "SLURM_JOB_ID",
                           "PET_NNODES", "DDPRUN_TOKEN", "RANK", "TORCHELASTIC_ERROR_FILE"})
    CHECK_FALSE(is_handed_on(name));
  CHECK(handed_environment({{"PATH", "/bin"}, {"HOME", "/root"}}) ==
        std::map<std::string, std::string>{{"PATH", "/bin"}});
}

TEST_CASE("what ddprun has just said on another host is not printed again", "[ssh]") {
  RepeatedLines lines;
  CHECK(lines.without_repeated(0, "ddprun: stops.\nmine\n", t0) == "ddprun: stops.\nmine\n");
  CHECK(lines.without_repeated(1, "mine\nddprun: stops.\nddprun: else.\n", t0 + 1s) == "mine\nddprun: else.\n");
  CHECK(lines.without_repeated(0, "ddprun: stops.\n", t0 + 2s) == "ddprun: stops.\n");  // it says so twice
  CHECK(lines.without_repeated(1, "ddprun: stops.\n", t0 + 30s) == "ddprun: stops.\n");
  CHECK(lines.without_repeated(2, "ddprun: stops.", t0 + 31s) == "ddprun: stops.");  // no whole line
}

TEST_CASE("a connection attempt without an answer is seen in the kernel's table", "[ssh]") {
  CHECK(unanswered_sockets(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0\n"
            "   1: 0A00630A:B0A4 0C00630A:08AE 02 00000001:00000000 01:00000063 00000000     0        0 222 2 0\n") ==
        std::set<std::string>{"222"});
  CHECK(unanswered_sockets("").empty());
  CHECK_FALSE(is_connecting(getpid()));
}
