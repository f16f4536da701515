#include "launcher/config/cli.h"

#include "launcher/config/options.h"
#include "launcher/jobs/job_file.h"
#include "launcher/plan/agent_options.h"
#include "launcher/plan/warnings.h"
#include "launcher/print/print_config.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Arguments = std::vector<std::string>;
const Machine kMachine{8};
const std::string kToken = "00112233445566778899aabbccddeeff";

CommandLine command_line(const Arguments& words, const Environment& environment = {}, const std::string& file = "") {
  return read_command_line(words, {environment, [file](const std::string&) { return FileText{file}; }});
}

Config parsed(const Arguments& words, const Environment& environment = {}, const std::string& file = "") {
  CommandLine result = command_line(words, environment, file);
  INFO((result.mistakes.empty() ? "" : result.mistakes.front()));
  CHECK(result.mistakes.empty());
  return std::move(result.config);
}

AgentOptions options_of(const Config& config, HostInfo host, const Machine& machine = kMachine) {
  host.places = places_of(config);
  return agent_options(config, machine, {"/bin/p", {"p"}, false}, "run", host, round_policy(config));
}

}  // namespace

TEST_CASE("dashes and underscores, blanks and equal signs mean the same", "[cli]") {
  for (const Arguments& words : {Arguments{"--nproc-per-node", "4", "p"}, Arguments{"--nproc_per_node=4", "p"},
                                 Arguments{"--nproc-per-node=4", "p"}, Arguments{"--nproc_per_node", "4", "p"}}) {
    CHECK(parsed(words).nproc_per_node.workers == 4);
    CHECK(parsed(words).program == Arguments{"p"});
  }
  for (const Arguments& words : {Arguments{"-r3", "p"}, Arguments{"-r", "3", "p"}, Arguments{"-r=3", "p"},
                                 Arguments{"-vr3", "p"}, Arguments{"--redirects=3", "p"}})
    CHECK(parsed(words).logs.redirects.of(0, 0) == kBothStreams);
}

TEST_CASE("a name may be shortened as long as one option alone begins so", "[cli]") {
  CHECK(parsed({"--standal", "p"}).standalone);
  CHECK(parsed({"--nproc", "3", "p"}).nproc_per_node.workers == 3);
  CHECK(parsed({"--nproc_per=3", "p"}).nproc_per_node.workers == 3);
  CHECK(parsed({"--shutdown=3", "p"}).stop.stop_grace == 3s);
  CHECK(parsed({"--role", "x", "p"}).role == "x");
}

TEST_CASE("every option arrives", "[cli]") {
  using Conf = std::map<std::string, std::string>;
  struct Row {
    Arguments words;
    bool (*arrived)(const Config& c);
  };
  const std::vector<Row> rows{
      {{"--nproc-per-node=2"}, [](const Config& c) { return c.nproc_per_node.workers == 2; }},
      {{"--role=actor"}, [](const Config& c) { return c.role == "actor"; }},
      {{"--no-python"}, [](const Config& c) { return c.no_python; }},
      {{"--virtual-local-rank"}, [](const Config& c) { return c.virtual_local_rank; }},
      {{"--numa-binding=core-complex"}, [](const Config& c) { return c.numa_binding == NumaBinding::core_complex; }},
      {{"--omp-threads=auto"}, [](const Config& c) { return c.omp_threads == kAutoThreads; }},
      {{"--standalone"}, [](const Config& c) { return c.standalone; }},
      {{"--rdzv-backend=c10d"}, [](const Config& c) { return c.rdzv_backend == Backend::c10d; }},
      {{"--rdzv-endpoint=[::1]:7"},
       [](const Config& c) { return c.rdzv_endpoint->host == "::1" && c.rdzv_endpoint->port == 7; }},
      {{"--rdzv-id=id"}, [](const Config& c) { return c.rdzv_id == "id"; }},
      {{"--rdzv-conf=join_timeout=3,is_host=y"},
       [](const Config& c) {
         return c.rdzv_conf == Conf{{"join_timeout", "3"}, {"is_host", "y"}};
       }},
      {{"--master-addr=[fd00::1]"}, [](const Config& c) { return c.master_addr == "fd00::1"; }},
      {{"--master_port=1"}, [](const Config& c) { return c.master_port == 1; }},
      {{"--local-addr=10.0.0.4"}, [](const Config& c) { return c.local_addr == "10.0.0.4"; }},
      {{"--interface=eth0"}, [](const Config& c) { return c.interface == "eth0"; }},
      {{"--tls-cert=c.pem"}, [](const Config& c) { return c.tls_cert == "c.pem"; }},
      {{"--tls-key=k.pem"}, [](const Config& c) { return c.tls_key == "k.pem"; }},
      {{"--tls-ca=a.pem"}, [](const Config& c) { return c.tls_ca == "a.pem"; }},
      {{"--max-restarts=7"}, [](const Config& c) { return c.rounds.restarts.max_restarts == 7; }},
      {{"--stop-grace=2.5"}, [](const Config& c) { return c.stop.stop_grace == 2500ms; }},
      {{"--stop-scope=group"}, [](const Config& c) { return c.stop_scope == StopScope::group; }},
      {{"--peer-exit-timeout=1m"}, [](const Config& c) { return c.stop.peer_exit_timeout == Duration(1min); }},
      {{"--max-run=2h"}, [](const Config& c) { return c.max_run == Duration(2h); }},
      {{"--signals-to-handle=SIGTERM,int"},
       [](const Config& c) {
         return c.signals_to_handle == std::vector{SIGTERM, SIGINT};
       }},
      {{"--preempt-signal=USR1"}, [](const Config& c) { return c.preempt_signals == std::vector{SIGUSR1}; }},
      {{"--preempt-exit-code=31"}, [](const Config& c) { return c.stop.preempt_exit_code == 31; }},
      {{"--preemption-probe=/run/preempted"}, [](const Config& c) { return c.preemption_probe == "/run/preempted"; }},
      {{"--exit-on-preempt=143"}, [](const Config& c) { return c.exit_on_preempt == 143; }},
      {{"--exit-code=worker"}, [](const Config& c) { return c.exit_code == ExitCodeChoice::worker; }},
      {{"--core-dumps"}, [](const Config& c) { return c.core_dumps; }},
      {{"--log-dir=d"}, [](const Config& c) { return c.logs.log_dir == "d"; }},
      {{"-r", "0:1"},
       [](const Config& c) { return c.logs.redirects.of(0, 0) == kStdout && c.logs.redirects.of(1, 1) == kNoStream; }},
      {{"-t", "3"}, [](const Config& c) { return c.logs.tee.of(1, 1) == kBothStreams; }},
      {{"--local-ranks-filter=0, 2-3"},
       [](const Config& c) { return c.logs.console_ranks.holds(3, 3) && !c.logs.console_ranks.holds(1, 1); }},
      {{"--duplicate-stdout-filters=a,,b,c"},
       [](const Config& c) {
         return c.logs.stdout_filters == Arguments{"a,b", "c"};
       }},
      {{"--duplicate-stderr-filters=x"}, [](const Config& c) { return c.logs.stderr_filters == Arguments{"x"}; }},
      {{"--log-prefix=${rank}>"}, [](const Config& c) { return c.logs.prefix == "${rank}>"; }},
      {{"--log-size=1.5K"}, [](const Config& c) { return c.logs.size_max == 1536; }},
      {{"--log-keep=9"}, [](const Config& c) { return c.logs.size_keep == 9; }},
      {{"--log-layout=torchrun"}, [](const Config& c) { return c.logs.tree == LogTree::torchrun; }},
      {{"--event-log-handler=file:e.json"},
       [](const Config& c) { return c.events == EventSink::file && c.event_file == "e.json"; }},
      {{"--metrics=[::1]:9100"}, [](const Config& c) { return c.metrics.address == "::1" && c.metrics.port == 9100; }},
      {{"--page"}, [](const Config& c) { return c.metrics.page; }},
      {{"--metrics-cert=c.pem"}, [](const Config& c) { return c.metrics.certificate == "c.pem"; }},
      {{"--metrics-key=k.pem"}, [](const Config& c) { return c.metrics.key == "k.pem"; }},
      {{"--otlp=http://collector:4318"}, [](const Config& c) { return c.otlp == "http://collector:4318"; }},
      {{"-v"}, [](const Config& c) { return c.verbose; }},
      {{"--prefork"}, [](const Config& c) { return c.prefork; }},
      {{"--prefork-import=a,b.c"}, [](const Config& c) { return c.prefork_import == "a,b.c"; }},
      {{"--prefork-learn=file"}, [](const Config& c) { return c.prefork_learn == "file"; }},
      {{"--memory-snapshots=512M"}, [](const Config& c) { return c.memory_snapshots == 512u << 20; }},
      {{"--in-process"}, [](const Config& c) { return c.in_process; }},
      {{"--spares=3"}, [](const Config& c) { return c.rounds.spares == 3; }},
      {{"--dry-run"}, [](const Config& c) { return c.dry_run; }},
  };
  Arguments words{"--nnodes=1", "--node-rank=0", "--monitor-interval=5"};
  for (const Row& row : rows) words.insert(words.end(), row.words.begin(), row.words.end());
  words.push_back("p");
  const Config config = parsed(words);
  for (const Row& row : rows) {
    INFO(row.words.front());
    CHECK(row.arrived(config));
  }
  CHECK(parsed({"-m", "p"}).module);
}

TEST_CASE("what a part of the agent decides by reaches it", "[cli]") {
  const Config config = parsed({"--log-dir=d", "--stop-grace=2", "--peer-exit-timeout=1m", "--preempt-exit-code=31",
                                "--preempt-signal=USR1", "--max-restarts=7", "--exclude-after=5", "--stragglers=off",
                                "--allow-chaos", "--page", "p"});
  const AgentOptions options = options_of(config, {"host", "", {}, "", {}});
  CHECK(options.logs.log_dir == "d");
  CHECK(options.logs.host == "host");
  CHECK(options.stop.stop_grace == 2s);
  CHECK(options.stop.peer_exit_timeout == Duration(1min));
  CHECK(options.stop.preempt_exit_code == 31);
  CHECK(options.stop.notice_signals == std::vector{SIGTERM, SIGUSR1});
  CHECK(options.allow_chaos);
  CHECK_FALSE(options.watch_stragglers);
  CHECK(options.command.job.max_restarts == 7);
  REQUIRE(options.metrics);
  CHECK(options.metrics->page);
  CHECK(options.metrics->address == "127.0.0.1");
  CHECK(options_of(parsed({"--metrics=[::1]:9100", "p"}), {"host", "", {}, "", {}}).metrics->address == "::1");
  CHECK_FALSE(options_of(parsed({"p"}), {"host", "", {}, "", {}}).metrics);
  CHECK(round_policy(config).restarts.max_restarts == 7);
  CHECK(round_policy(config).exclusion.failures == 5);
}

TEST_CASE("every default of the table reads as the default of the Config", "[cli]") {
  const Config config;
  for (const settings::Option& row : options().options) {
    const std::string standard = settings::default_of(options(), row);
    if (!row.member.set || standard.empty()) continue;
    INFO(row.name);
    Config changed;
    CHECK(row.member.set(&changed, row, standard).empty());
    if (row.member.get) CHECK(row.member.get(&changed, row) == standard);
    const auto values = [](const Config& c) {
      return std::tuple(c.nproc_per_node.workers, c.nnodes, c.stop.stop_grace, c.signals_to_handle, c.logs.prefix,
                        c.logs.size_max, c.events, c.max_run, c.stop.peer_exit_timeout, c.logs.tee.any());
    };
    CHECK((values(changed) == values(config)));
  }
}

TEST_CASE("everything after the program is the program's own", "[cli]") {
  CHECK(parsed({"--nproc-per-node=2", "train", "--nproc-per-node=9", "-m", "--", "x", "--help", "--role="}).program ==
        Arguments{"train", "--nproc-per-node=9", "-m", "--", "x", "--help", "--role="});
  CHECK(parsed({"--", "train", "-v"}).program == Arguments{"train", "-v"});
  CHECK(parsed({"--", "-v"}).program == Arguments{"-v"});
  CHECK(parsed({"--stand", "train", "--stand", "--role="}).program == Arguments{"train", "--stand", "--role="});
}

TEST_CASE("a value may look like an option or be empty where it stands behind an equals sign", "[cli]") {
  CHECK(parsed({"--role=", "echo", "-n", "b"}).program == Arguments{"echo", "-n", "b"});
  CHECK(parsed({"--role=--tee", "p"}).role == "--tee");
  CHECK(parsed({"--log-dir=", "p"}).logs.log_dir.empty());
  CHECK(parsed({"--log-dir=", "p"}).program == Arguments{"p"});
  CHECK(parsed({"--rdzv-conf=", "--role=r", "p"}).role == "r");
  CHECK(parsed({"--log-prefix", "-> ", "p"}).logs.prefix == "-> ");
}

TEST_CASE("the last one of a repeated option counts", "[cli]") {
  CHECK(parsed({"--nproc-per-node=2", "--nproc_per_node=5", "p"}).nproc_per_node.workers == 5);
  CHECK(parsed({"--stop-grace=2", "--shutdown-timeout", "5", "p"}).stop.stop_grace == 5s);
}

TEST_CASE("the environment stands in for an option, the command line wins", "[cli]") {
  const Environment environment{{"PET_NPROC_PER_NODE", "6"},
                                {"PET_STANDALONE", "1"},
                                {"PET_MODULE", "false"},
                                {"PET_ROLE", ""},
                                {"PET_OF_ANOTHER", "x"}};
  const Config config = parsed({"p"}, environment);
  CHECK(config.nproc_per_node.workers == 6);
  CHECK(config.standalone);
  CHECK_FALSE(config.module);
  CHECK(config.role == "default");
  CHECK(parsed({"--nproc-per-node=2", "p"}, environment).nproc_per_node.workers == 2);
  CHECK(parsed({"--max-restarts=2", "p"}, {{"PET_MAX_RESTARTS", "many"}}).rounds.restarts.max_restarts == 2);
}

TEST_CASE("the variables that torchrun and its users know mean what they mean there", "[cli]") {
  CHECK(parsed({"p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}}).stop.stop_grace == 7s);
  CHECK(parsed({"p"}, {{"PET_SHUTDOWN_TIMEOUT", "8"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}}).stop.stop_grace == 8s);
  CHECK(parsed({"p"}, {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${foo}>"}}).logs.prefix == "<${foo}>");
  CHECK(parsed({"p"}, {{"LOGLEVEL", "INFO"}}).verbose);
  CHECK(parsed({"p"}, {{"LOGLEVEL", "debug"}}).verbose);
  CHECK_FALSE(parsed({"p"}, {{"LOGLEVEL", "WARNING"}}).verbose);
}

TEST_CASE("torchrun's options for Python change nothing, and a wrong value of theirs is refused as there", "[cli]") {
  for (const char* how : {"spawn", "fork", "forkserver"}) {
    CHECK(parsed({"--start-method", how, "p"}).program == Arguments{"p"});
    CHECK(parsed({"p"}, {{"PET_START_METHOD", how}}).program == Arguments{"p"});
  }
  CHECK(parsed({"--use_env", "--use-env", "p"}).program == Arguments{"p"});
  CHECK(parsed({"--logs-specs=default", "p"}).program == Arguments{"p"});
  CHECK(parsed({"--run-path", "p.py"}).run_path);
  CHECK(parsed({"p.py"}, {{"PET_RUN_PATH", "1"}}).run_path);
}

TEST_CASE("a template for lines goes by torchrun's name, too", "[cli]") {
  const std::string text = "${hostname}:${rank}: ";
  CHECK(parsed({"--log-line-prefix-template", text, "p"}).logs.prefix == text);
  CHECK(parsed({"--log_line_prefix_template=" + text, "p"}, {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x"}})
            .logs.prefix == text);
  CHECK(parsed({"p"}, {{"PET_LOG_LINE_PREFIX_TEMPLATE", text}}).logs.prefix == text);
}

TEST_CASE("a file sets what neither the command line nor the environment does", "[cli]") {
  const std::string file = "role = \"a\"\nmax_restarts = 9\nlog-dir = 'l'\nprogram = ['train', '--lr', '1']\n";
  const Config config = parsed({"--config", "job.toml", "--max-restarts=1"}, {{"PET_LOG_DIR", "m"}}, file);
  CHECK(config.role == "a");
  CHECK(config.rounds.restarts.max_restarts == 1);
  CHECK(config.logs.log_dir == "m");
  CHECK(config.program == Arguments{"train", "--lr", "1"});
  CHECK(parsed({"--config=x", "mine"}, {}, file).program == Arguments{"mine"});
  CHECK(parsed({"p"}, {{"PET_CONFIG", "x"}}, file).role == "a");
}

TEST_CASE("a file in YAML is refused with the line that converts it, and so are a job's keys", "[cli]") {
  const std::string yaml = R"(nproc_per_node: 2   # workers
max-restarts: 1
name: digits
program: [train, "3", --lr, 1e-3]
env:
  A: 1
  B_2: yes it is
hyperparameters:
  max-restarts: 007
  sizes: [64, 32]
tags:
  - a: b
arguments:
- -x
- 'y z'
)";
  CHECK(command_line({"--config=a/job.yml", "p"}, {}, yaml).mistakes ==
        Arguments{"a/job.yml is YAML, and only TOML is read. This converts it: ddprun --config a/job.yml "
                  "--print-config > a/job.toml"});
  const std::string toml = R"(nproc-per-node = 2
max-restarts = 1
name = "digits"
program = ["train", "3", "--lr", "1e-3"]
env.A = 1
env.B_2 = "yes it is"
hyperparameters.max-restarts = "007"
hyperparameters.sizes = [64, 32]
arguments = ["-x", "y z"]
# lines 11 to 12 are left out: the value of tags is not a plain one
)";
  const std::string converted = command_line({"--config=a/job.yml", "--print-config"}, {}, yaml).answer;
  CHECK(converted == toml);
  CHECK(read_job_description({.name = "job.toml", .folder = "/", .text = converted}).mistakes.empty());
}

TEST_CASE("~ and variables in the paths of file and environment are replaced, and no others", "[cli]") {
  const Environment home{{"HOME", "/home/me"}, {"SCRATCH", "/scratch"}};
  const auto with_variable = [&](const std::string& name, const std::string& text) {
    Environment all = home;
    all[name] = text;
    return all;
  };
  CHECK(parsed({"p"}, with_variable("PET_LOG_DIR", "~/logs")).logs.log_dir == "/home/me/logs");
  CHECK(parsed({"--config=c", "p"}, home, "log-dir = \"${SCRATCH}/x\"\n").logs.log_dir == "/scratch/x");
  CHECK(parsed({"--log-dir=~/$SCRATCH", "p"}, home).logs.log_dir == "/home/me/$SCRATCH");
  CHECK(parsed({"p"}, with_variable("PET_ROLE", "~/$SCRATCH")).role == "~/$SCRATCH");
  CHECK(command_line({"p"}, with_variable("PET_LOG_DIR", "$NONE/logs")).mistakes ==
        Arguments{"PET_LOG_DIR in the environment is '$NONE/logs', and there is no variable NONE in the environment."});
  CHECK(parsed({"--log-dir=x", "p"}, with_variable("PET_LOG_DIR", "$NONE/logs")).logs.log_dir == "x");
  for (const char* key : {"source_dir", "output_path", "snapshot"}) {
    const Arguments mistakes =
        read_job_description(
            {.name = "job.toml", .folder = "/", .text = "program = \"p\"\n" + std::string(key) + " = \"~/x\"\n"})
            .mistakes;
    REQUIRE(mistakes.size() == 1);
    CHECK_THAT(mistakes.front(), StartsWith("job.toml:2: ") && Contains("neither ~ nor a variable is replaced in it"));
  }
}

TEST_CASE("what --print-config shows is read back by --config to the same values", "[cli]") {
  const Arguments words{"--role=007",
                        "--log-prefix=say \"${rank}\" \\ ",
                        "--rdzv-id=7",
                        "--max-run=2h",
                        "-v",
                        "--duplicate-stdout-filters=a,,b,c",
                        "--local-ranks-filter=0,2-3",
                        "--standalone=0",
                        "a b",
                        "tab\tnew\nline",
                        "'"};
  const Config first = parsed(words, {{"PET_TEE", "0:3"}}, "");
  const std::string shown = print_config(first);
  const Config again = parsed({"--config=c"}, {}, shown);
  CHECK(again.role == "007");
  CHECK(again.logs.prefix == first.logs.prefix);
  CHECK(again.logs.stdout_filters == first.logs.stdout_filters);
  CHECK(again.program == first.program);
  CHECK(again.logs.tee.of(0, 0) == kBothStreams);
  CHECK(again.verbose);
  const auto values = [](const std::string& text) {  // without the comments, which say where a value came from
    std::string out;
    for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      out += text.substr(at, std::min(text.find("  #", at), end) - at) + "\n";
    }
    return out;
  };
  CHECK(values(print_config(again)).substr(60) == values(shown).substr(60));
}

TEST_CASE("option --print-config says where each value came from", "[cli]") {
  const std::string shown =
      print_config(parsed({"--max_restarts", "1", "p"}, {{"PET_TEE", "3"}, {"PET_CONFIG", "job.toml"}},
                          "\nrole = 'r'\nmax-restarts = 9\ntee = 0"));
  const auto line = [&](const std::string& name) {
    const std::size_t at = shown.find("\n" + name + " = ") + 1;
    return shown.substr(at, shown.find('\n', at) - at);
  };
  CHECK(line("max-restarts").find("= 1 ") != std::string::npos);
  CHECK(line("max-restarts").ends_with("  # --max_restarts"));
  CHECK(line("tee").ends_with("  # PET_TEE"));
  CHECK(line("role").ends_with("  # job.toml:2"));
  CHECK(line("log-keep").ends_with("  # default"));
  CHECK(print_config(parsed({"p"}), "Python: /p, by PYTHON_EXEC.").ends_with("\n# Python: /p, by PYTHON_EXEC.\n"));
}

TEST_CASE("a sentence about a wrong value of any option ends with one full stop or one question mark", "[cli]") {
  for (const settings::Option& option : options().options) {
    if (option.positional || !option.takes_word()) continue;
    for (const char* wrong : {"nul", "zzz", "a=b,c", "[", ":", "-1", "99999999999"})
      for (const std::string& mistake :
           command_line({std::string("--") + option.name + "=" + wrong, "p"}, {}, "not TOML").mistakes) {
        CAPTURE(mistake);
        CHECK_FALSE(mistake.ends_with(".."));
        CHECK_FALSE(mistake.ends_with("?."));
      }
  }
  CHECK(command_line({"--event-log-handler=nul", "p"}).mistakes ==
        Arguments{"--event-log-handler is 'nul'; it takes null, console or file:PATH. Did you mean 'null'?"});
  CHECK(command_line({"--event-log-handler=syslog", "p"}).mistakes ==
        Arguments{"--event-log-handler is 'syslog'; it takes null, console or file:PATH."});
  CHECK(command_line({"--event-log-handler=file:e", "p"}).mistakes.empty());
}

TEST_CASE("option -v shows what is not the default, and where it came from", "[cli]") {
  const auto shown = [](const Arguments& words, const Environment& environment = {}, const std::string& file = "") {
    std::string out = print_changed_config(parsed(words, environment, file));
    out.erase(0, out.find('\n') + 1);
    for (std::size_t at; (at = out.find("  ")) != std::string::npos;) out.erase(at, 1);
    return out;
  };
  const std::string program = "program = [\"p\"] # command line\n";
  CHECK(print_changed_config(parsed({"-v", "p"}))
            .starts_with("# ddprun " + project_version() + ": all values are the defaults.\nprogram"));
  CHECK(shown({"-v", "p"}) == program);
  CHECK(shown({"-v", "--nproc-per-node=4", "p"}, {{"PET_MAX_RESTARTS", "7"}, {"PET_ROLE", "default"}}) ==
        "nproc-per-node = 4 # --nproc-per-node\nmax-restarts = 7 # PET_MAX_RESTARTS\n" + program);
  CHECK(shown({"--max-restarts=3", "p"}) == program);  // the default, said
  CHECK(shown({"--tee=3", "--config=job.toml", "p"}, {}, "tee = 1\nstop-grace = \"9s\"\n[env]\nA = \"b\"\n") ==
        "stop-grace = \"9s\" # job.toml:2\ntee = 3 # --tee\n" + program + "\n[env]\nA = \"b\"\n");
  CHECK(shown({"p"}, {{"DDPRUN_TOKEN", kToken}}) == "# token-file # DDPRUN_TOKEN: set, not shown\n" + program);
}

TEST_CASE("option --help and --version answer, also beside mistakes and without a program", "[cli]") {
  CHECK(command_line({"--version"}).answer == "ddprun " + project_version() + " (commit unknown)\n");
  Inputs inputs;
  inputs.commit = "abc1234-dirty";
  CHECK(read_command_line({"-V", "--bogus"}, inputs).answer ==
        "ddprun " + project_version() + " (commit abc1234-dirty)\n");
  CHECK(command_line({"--help"}).answer.starts_with("usage: ddprun"));
  CHECK(command_line({"--tee=9", "--bogus", "-h"}).answer.starts_with("usage: ddprun"));
  CHECK(command_line({"--help", "logs"}).answer.starts_with("logs: "));
  CHECK(command_line({"--help=stop"}).answer.starts_with("stopping: "));
  CHECK(command_line({"train", "--help"}).answer.empty());
  CHECK(command_line({"--help", "nnodes"}).answer.starts_with("  --nnodes"));
  CHECK(command_line({"--help", "nproc"}).answer.starts_with("  --nproc-per-node"));
  CHECK(command_line({"-h", "train.py"}).answer.starts_with("usage: ddprun"));
  const std::string all = command_line({"--help=all"}).answer;
  for (const char* group : {"workers: ", "\nlogs: ", "\ntorchrun: "}) CHECK(all.find(group) != std::string::npos);
  const CommandLine unknown = command_line({"--help", "restats", "--bogus"});
  CHECK(unknown.answer.empty());
  CHECK(unknown.mistakes == std::vector<std::string>{"--help is 'restats', which is no group of options and no option. "
                                                     "Did you mean 'restarts'? ddprun --help lists the groups."});
}

TEST_CASE("a token comes in a file or in DDPRUN_TOKEN, and both may hold the same", "[cli]") {
  CHECK(parsed({"--token-file=t", "p"}, {}, kToken + "\n").token->secret() == kToken);
  CHECK(parsed({"p"}, {{"PET_TOKEN_FILE", "t"}}, kToken).token->secret() == kToken);
  CHECK(parsed({"p"}, {{"DDPRUN_TOKEN", kToken}}).token->secret() == kToken);
  CHECK(parsed({"--token-file=t", "p"}, {{"DDPRUN_TOKEN", kToken}}, kToken).token->secret() == kToken);
  CHECK_FALSE(parsed({"p"}, {{"DDPRUN_TOKEN", ""}, {"PET_TOKEN_FILE", ""}}).token);
}

TEST_CASE("a token is in no sentence about it and in no print of the values", "[cli]") {
  const std::string other = "ffeeddccbbaa99887766554433221100", secret = kToken.substr(4, 12);
  std::string said;
  for (const CommandLine& result :
       {command_line({"--token-file=t", "p"}, {{"DDPRUN_TOKEN", kToken}}, other),
        command_line({"--token-file=t", "p"}, {{"DDPRUN_TOKEN", kToken + "!"}}, kToken + "?"),
        command_line({"--token-file=t", "--tls-cert=c", "--tls-key=k", "--tls-ca=a", "p"}, {{"DDPRUN_TOKEN", kToken}},
                     kToken)}) {
    for (const std::string& sentence : result.mistakes) said += sentence;
    for (const std::string& sentence : problems(result.config, kMachine)) said += sentence;
    said += print_config(result.config);
  }
  INFO(said);
  for (const char* part : {"different tokens", "character 33", "exclude a token"})
    CHECK(said.find(part) != std::string::npos);
  // "not shown" would be the token of the environment; the file is shown, by its name.
  for (const std::string& part : {std::string("not shown"), secret, other.substr(4, 12)})
    CHECK(said.find(part) == std::string::npos);
  CHECK(print_config(parsed({"p"}, {{"DDPRUN_TOKEN", kToken}})).find("DDPRUN_TOKEN: set, not shown") !=
        std::string::npos);
}

TEST_CASE("the store may take an eighth of the memory, unless told otherwise", "[cli]") {
  const auto bytes = [](const std::vector<std::string>& words, std::uint64_t memory) {
    Machine machine = kMachine;
    machine.memory_bytes = memory;
    return options_of(parsed(words), {"host", "", {}, "", {}}, machine).store_bytes_max;
  };
  CHECK(bytes({"p"}, 8ull << 30) == 1ull << 30);
  CHECK(bytes({"p"}, 0) == 0);  // unknown: no limit
  CHECK(bytes({"--store-memory=512M", "p"}, 8ull << 30) == 512u << 20);
  CHECK(bytes({"--store-memory=0", "p"}, 8ull << 30) == 0);
}

TEST_CASE("snapshots in memory may take what this process may use, in files of any size", "[cli]") {
  const auto problems_of = [](const std::string& size, std::uint64_t memory, std::uint64_t file_limit) {
    Machine machine = kMachine;
    machine.memory_bytes = memory;
    machine.file_bytes_max = file_limit;
    return problems(parsed({"--memory-snapshots=" + size, "p"}), machine);
  };
  CHECK(parsed({"--memory-snapshots=1.5G", "p"}).memory_snapshots == 3ull << 29);
  CHECK(parsed({"p"}).memory_snapshots == 0);
  CHECK(problems_of("4G", 4ull << 30, 0).empty());
  CHECK(problems_of("4G", 0, 0).empty());  // unknown
  CHECK(problems_of("0", 1, 1).empty());
  CHECK(problems_of("5G", 4ull << 30, 0) ==
        std::vector<std::string>{"--memory-snapshots asks for 5120M, and this process may use 4096M of memory: ask for "
                                 "less."});
  CHECK(problems_of("1G", 4ull << 30, 10 << 20) ==
        std::vector<std::string>{"--memory-snapshots needs files of any size, and a limit here is 10M: lift it (ulimit "
                                 "-f unlimited), or leave the option out."});
}

TEST_CASE("the place of the metrics is on loopback unless an address is given", "[cli]") {
  for (const char* loopback :
       {"--metrics=9100", "--metrics=:9100", "--metrics=localhost:9100", "--metrics=127.0.0.1:9100"}) {
    const Config config = parsed({loopback, "p"});
    CAPTURE(loopback);
    CHECK(config.metrics.address == "127.0.0.1");
    CHECK(config.metrics.port == 9100);
    CHECK(problems(config, Machine{}).empty());
  }
  CHECK(parsed({"p"}, {{"PET_METRICS_ADDRESS", "0"}}).metrics.port == 0);
  CHECK(parsed({"p"}, {{"PET_METRICS_ADDRESS", "0"}}).metrics.address == "127.0.0.1");
  CHECK(parsed({"--config=c"}, {}, "program = \"p\"\nmetrics-address = 9100\n").metrics.port == 9100);
  const Config open = parsed({"--metrics=0.0.0.0:9100", "--metrics-token-file=t", "p"}, {}, kToken + "\n");
  CHECK(open.metrics.token->secret() == kToken);
  CHECK_FALSE(open.token);
  CHECK(problems(open, Machine{}).empty());
}

TEST_CASE("a token file that others may read is warned of, once, and serves", "[cli]") {
  const Inputs inputs{{}, [](const std::string&) { return FileText{kToken, true}; }};
  const CommandLine result = read_command_line({"--token-file=t", "p"}, inputs);
  CHECK(result.mistakes.empty());
  CHECK(result.config.token);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings.front() ==
        "--token-file is 't', which other users may read: chmod 600 it, or they can join the job.");
}

TEST_CASE("names are checked for ddprun.launch(), where an abbreviation is none", "[cli]") {
  CHECK(
      command_line({"--check-names", "tee,nproc,puhs,max_restrats,backg,see,frobnicate;see,push,background"}).answer ==
      "tee=tee\nnproc=nproc-per-node\npuhs=push\nmax_restrats=max-restarts\nbackg=background\nsee=see\n"
      "frobnicate=\n");
  CHECK(command_line({"--check-names", "tee,max_restarts,nproc_per,num_processes,frobnicate"}).answer ==
        "tee=tee\nmax_restarts=max_restarts\nnproc_per=nproc-per-node\nnum_processes=nproc-per-node\nfrobnicate=\n");
}

TEST_CASE("option --print-completion answers with a script for the shells that it names, and refuses others", "[cli]") {
  for (const char* shell : {"bash", "zsh", "tcsh"})
    CHECK(command_line({"--print-completion", shell}).answer.find("--max-restarts") != std::string::npos);
  CHECK(
      command_line({"--print_completion=bash", "--bogus", "p"}).answer.starts_with("# Completion of ddprun for bash"));
  CHECK(command_line({"p"}, {{"PET_PRINT_COMPLETION", "bash"}}).answer.empty());
}

TEST_CASE("option --make-token answers with a token", "[cli]") {
  CHECK(read_command_line({"--make-token"}, {{}, {}, [] { return kToken; }}).answer == kToken + "\n");
  CHECK(command_line({"p"}, {{"PET_MAKE_TOKEN", "1"}}).answer.empty());
}

TEST_CASE("workers do not inherit the token", "[cli]") {
  const Config config = parsed({"p"}, {{"DDPRUN_TOKEN", kToken}});
  const HostInfo host{"host", "", {{"DDPRUN_TOKEN", kToken}, {"HOME", "/home/me"}}, "", {}};
  const AgentOptions options = options_of(config, host);
  CHECK(options.command.inherited == Environment{{"HOME", "/home/me"}});
  CHECK(std::holds_alternative<Token>(credentials(config)));
  CHECK(std::holds_alternative<NoCredentials>(credentials(parsed({"p"}))));
}

TEST_CASE("certificates are read where all three files are named, as any other file is", "[cli]") {
  const Arguments words{"--tls-cert=c", "--tls-key=k", "--tls-ca=a", "p"};
  const auto read = [](const std::string& name) { return FileText{"text of " + name}; };
  const auto files = std::get<CertificateFiles>(credentials(read_command_line(words, {{}, read}).config));
  CHECK(files.certificate.text() == "text of c");
  CHECK(files.key.text() == "text of k");
  CHECK(files.authority.name() == "a");
  CHECK(files.authority.text() == "text of a");

  const auto silent_key = [&](const std::string& name) -> std::variant<FileText, Unreadable> {
    if (name == "k") return Unreadable{"it is a pipe, and nothing was written to it for 10 s"};
    return read(name);
  };
  const CommandLine silent = read_command_line(words, {{}, silent_key});
  CHECK(silent.mistakes ==
        Arguments{"--tls-key is 'k', which cannot be read: it is a pipe, and nothing was written to it for 10 s."});
  const auto never = [](const std::string&) -> std::variant<FileText, Unreadable> { return Unreadable{"no"}; };
  CHECK(read_command_line({"--tls-cert=c", "--tls-key=k", "p"}, {{}, never}).mistakes.empty());
  CHECK(read_command_line(words, {{{"DDPRUN_TOKEN", kToken}}, never}).mistakes.empty());
}

TEST_CASE("any words whatever are read or answered, never a crash or a wait without end", "[cli]") {
  const Arguments pieces = split(
      "--,-,-r,-vm,--role,--role=,--tee=3,-tee,--rdzv,--standal,=,,--=,---,-x,--bogus,--bogus=1,3,train,--help,"
      "-r=3,-vr,--no-python,--config,\xff,--log-dir,-5,--nproc_per_node,a b,--shutdown-timeout,-=,%%",
      ',');
  std::mt19937 random(7);
  for (int round = 0; round < test::often(5'000); ++round) {
    Arguments words(random() % 7);
    for (std::string& word : words)
      word = pieces[random() % pieces.size()] + (random() % 9 ? "" : pieces[random() % pieces.size()]);
    const CommandLine result = command_line(words);
    for (const std::string& sentence : result.mistakes) CHECK((sentence.ends_with('.') || sentence.ends_with('?')));
  }
}

TEST_CASE("a static endpoint names master address and port, unless they are named or the job is standalone",
          "[config]") {
  const Config fixed = parsed({"--rdzv-endpoint=node7:29500", "p"});
  CHECK(places_of(fixed).master_host == "node7");
  CHECK(places_of(fixed).master_port == 29500);
  CHECK(places_of(parsed({"--rdzv-endpoint=node7", "--master-port=3", "p"})).master_port == 3);
  CHECK(places_of(parsed({"--rdzv-endpoint=node7:1", "--standalone", "p"})).master_host.empty());
  CHECK(places_of(parsed({"--rdzv-endpoint=node7:1", "--rdzv-backend=c10d", "p"})).master_host.empty());
  CHECK(places_of(parsed({"--rdzv-endpoint=node7:1", "--rdzv-backend=c10d", "p"})).master_port == 0);
  CHECK(places_of(parsed({"--local-addr=10.0.0.4", "p"})).master_host == "10.0.0.4");
  CHECK(places_of(parsed({"--local-addr=10.0.0.4", "--master-addr=h", "p"})).master_host == "h");
  CHECK(problems(fixed, kMachine).empty());
}

TEST_CASE("an elastic job without an endpoint meets on this machine, a job of so many nodes wants one", "[config]") {
  for (const char* nodes : {"1:2", "2:4"}) {
    const Config config = parsed({"--rdzv-backend=c10d", std::string("--nnodes=") + nodes, "p"});
    CHECK(problems(config, kMachine).empty());
    CHECK(places_of(config).meeting.front().host == "localhost");
    CHECK(places_of(config).meeting.front().port == 29400);
  }
  CHECK(problems(parsed({"--rdzv-backend=c10d", "--nnodes=2", "p"}), kMachine).size() == 1);
}

TEST_CASE("nodes of one protocol are nodes of one job whatever their versions, and another protocol is named",
          "[config]") {
  const Config config = parsed({"--nnodes=2", "--node-rank=1", "--master-addr=h", "p"});
  const AgentOptions options = options_of(config, {"host", "", {}, "", {}, {Locality::remote}});
  REQUIRE(options.meeting);
  const Fingerprint& ours = options.meeting->fingerprint;
  CHECK(difference({kControlProtocol, kControlProtocolSince, "2", "p"}, ours) == "");
  CHECK(has(difference({13, "0.1.0", "2", "p"}, ours), "protocol is 14 (of version 0.2.0) here and 13 (of version"));
  CHECK(options.version == project_version());
}

TEST_CASE("a standalone job of several nodes is a contradiction, unless a weaker source asks for the nodes",
          "[config]") {
  const auto problems_of = [](const Arguments& words, const std::map<std::string, std::string>& environment) {
    return problems(read_command_line(words, {environment}).config, kMachine);
  };
  for (const char* nodes : {"2", "2:4"})
    CHECK(problems_of({"--standalone", std::string("--nnodes=") + nodes, "p"}, {}).size() == 1);
  CHECK(problems_of({"--nnodes=2", "p"}, {{"PET_STANDALONE", "1"}}).size() == 1);
  CHECK(problems_of({"p"}, {{"PET_STANDALONE", "1"}, {"PET_NNODES", "2"}}).size() == 1);
  CHECK(problems_of({"--standalone", "p"}, {{"PET_NNODES", "2"}}).empty());  // as in a pod of a larger job
  CHECK(problems_of({"--standalone", "--nnodes=1:4", "p"}, {}).empty());
}

TEST_CASE("what is typed for torchrun on one machine is right", "[config]") {
  for (const Arguments& words :
       {Arguments{"--standalone", "--nnodes=1", "--nproc_per_node=2", "t.py"},
        Arguments{"--nnodes=1:1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=5", "t.py"},
        Arguments{"--nproc-per-node", "auto", "--master_addr", "127.0.0.1", "--master_port", "29500", "t.py", "-x"},
        Arguments{"--nnodes", "1", "--node_rank", "0", "--max_restarts", "0", "--monitor_interval", "0.1", "t.py"},
        Arguments{"--nnodes=1", "--monitor-interval=1", "--start-method=spawn", "--redirect=3", "--tee=3", "t.py"},
        Arguments{"--run-path", "--logs_specs=default", "--nnodes=1", "t.py"},
        Arguments{"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-conf='join_timeout=5,timeout=5'", "t.py"},
        Arguments{"--role", "t", "-r", "3", "-t", "0:3", "--log_dir", "/dev/null", "-m", "pkg.t"}})
    CHECK(problems(parsed(words), kMachine).empty());
}

TEST_CASE("option --watch takes a mode behind '=' and no other word, and puts its module before the user's path",
          "[cli]") {
  const auto watched = [](const Words& words, const Environment& environment = {}) {
    const HostInfo host{"host", "", environment, "/share/python", {}};
    return options_of(parsed(words), host).command.inherited;
  };
  CHECK(parsed({"--watch", "train.py"}).program == Words{"train.py"});
  CHECK(parsed({"--watch", "train.py"}).watch == WatchMode::act);
  CHECK(parsed({"--watch=see", "train.py"}).watch == WatchMode::see);
  CHECK(parsed({"train.py"}).watch == WatchMode::off);
  CHECK(watched({"train.py"}).at("PYTHONPATH") == "/share/python");
  CHECK(watched({"train.py"}, {{"PYTHONPATH", "/mine"}}).at("PYTHONPATH") == "/mine:/share/python");
  const auto seen = watched({"--watch=see", "train.py"}, {{"PYTHONPATH", "/mine"}});
  CHECK(seen.at("PYTHONPATH") == "/share/python/ddprun/_watch:/mine:/share/python");
  CHECK(seen.at("DDPRUN_WATCH") == "see");
  const auto inner = watched({"train.py"}, seen);  // of a ddprun that a watched worker starts
  CHECK(inner.at("PYTHONPATH") == "/mine:/share/python");
  CHECK_FALSE(inner.contains("DDPRUN_WATCH"));
  const HostInfo alone{"host", "", {}, "", {}};
  CHECK_THROWS_WITH(options_of(parsed({"--watch", "x.py"}), alone),
                    Contains("share/ddprun/python is not beside this ddprun"));
  const auto problem = [](const Words& argv) {
    return listed(warnings(parsed({"--watch", "x"}), {"/bin/" + argv[0], argv}, {}), "and");
  };
  for (const Words& blind :
       {Words{"python3", "-I", "x.py"}, {"python", "-u", "-Es", "x.py"}, {"python3.12", "-W", "error", "-S", "x"}})
    CHECK_THAT(problem(blind), Contains(" keeps out what --watch adds"));
  for (const Words& fine :
       {Words{"python3", "-u", "x.py", "-I"}, {"sh", "-I"}, {"python3", "-m", "E"}, {"python3", "-W", "I", "x"}})
    CHECK(problem(fine).empty());
}
