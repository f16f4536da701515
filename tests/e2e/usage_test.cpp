// The output for wrong usage, requests for help, and dry runs.
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

// The files of the build folder that `cmake --install` copies, by their names there.
std::set<std::string> installed_files(const fs::path& build) {
  std::set<std::string> out;
  const std::regex listed("\"" + build.string() + "/([^\"$]+)\"");
  for (const auto& entry : fs::recursive_directory_iterator(build)) {
    if (entry.path().filename() != "cmake_install.cmake") continue;
    const std::string script = read_file(entry.path());
    const std::regex file_lines("FILES ((?:\"[^\"]+\" ?)+)");
    for (std::sregex_iterator line(script.begin(), script.end(), file_lines), end; line != end; ++line) {
      const std::string names = (*line)[1];
      for (std::sregex_iterator name(names.begin(), names.end(), listed); name != end; ++name) out.insert((*name)[1]);
    }
  }
  return out;
}

Ended ddprun_with(std::vector<std::string> words, CommandOptions options = {}) {
  return run(job_of(std::move(words)), kLimit, std::move(options));
}

}  // namespace

TEST_CASE("every mistake is told at once, on stderr, with exit code 2", "[usage]") {
  const TempFolder folder;
  folder.write("job.toml", "tee = 9\n");
  const Ended ended =
      ddprun_with({"--config", "job.toml", "--nproc_pre_node=2", "--max-restarts=x", "-m", "--no-python"},
                  {.env = {{"PET_STOP_GRACE", "soon"}}, .cwd = folder.path()});
  CHECK(ended == exited(2));
  CHECK(ended.out.empty());
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 5);
  for (const char* part : {"Did you mean '--nproc-per-node'?", "PET_STOP_GRACE in the environment is 'soon'",
                           "--max-restarts is 'x'", "job.toml:1: tee is '9'", "exclude each other"})
    CHECK(has(ended.err, part));
  CHECK_FALSE(has(ended.err, "no program is named"));  // it may be what a mistaken option has taken
  CHECK(has(ddprun_with({"--tee=3"}).err, "no program is named"));
}

TEST_CASE("help, version and the values in force go to stdout with exit code 0", "[usage]") {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"-h", "logs"},
                                             {"--version"},
                                             {"--print-config"},
                                             {"--print-config", "--tee=3", "no-such-program"}}) {
    const Ended ended = ddprun_with(words);
    CHECK(ended == exited(0));
    CHECK(ended.err.empty());
    CHECK_FALSE(ended.out.empty());
  }
}

TEST_CASE("a token is made, read from a file, warned of where others may read it, and kept from the workers",
          "[usage]") {
  const TempFolder folder;
  const Ended made = ddprun_with({"--make-token"});
  REQUIRE(made == exited(0));
  REQUIRE(made.out.size() == 65);
  const std::string secret = made.out.substr(0, 64), file = folder.write("job.token", made.out);
  const std::vector<std::string> words{"--token-file", file, "sh", "-c", "env"};
  fs::permissions(file, fs::perms::owner_read);
  const Ended quiet = ddprun_with(words, {.env = {{"DDPRUN_TOKEN", secret}}});
  CHECK(quiet == exited(0));
  CHECK(quiet.err.empty());
  CHECK(has(quiet.out, "WORLD_SIZE=1"));
  CHECK_FALSE(has(quiet.out, "DDPRUN_TOKEN"));
  CHECK_FALSE(has(quiet.out, secret));
  fs::permissions(file, fs::perms::others_read, fs::perm_options::add);
  const Ended warned = ddprun_with(words);
  CHECK(warned == exited(0));
  CHECK(std::count(warned.err.begin(), warned.err.end(), '\n') == 1);
  CHECK(has(warned.err, "chmod 600"));
  for (const char* look : {"--dry-run", "--print-config", "-v"}) {
    const Ended ended = ddprun_with({look, "true"}, {.env = {{"DDPRUN_TOKEN", secret}}});
    CHECK(ended == exited(0));
    CHECK_FALSE(has(ended.out + ended.err, secret));
  }
}

TEST_CASE("a dry run names each rank's program and environment, starts nothing and makes no folder", "[usage]") {
  const TempFolder folder;
  const Ended ended = ddprun_with(
      {"--nproc-per-node=2", "--log-dir=logs", "--rdzv-id=j", "--dry-run", "touch", "started"}, {.cwd = folder.path()});
  CHECK(ended == exited(0));
  CHECK(ended.err.empty());
  for (const char* part : {"rank 0", "rank 1", "touch started", "RANK=1", "WORLD_SIZE=2", "stdout.log"})
    CHECK(has(ended.out, part));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("what is installed is built with ddprun and train, as scripts/quickstart.sh builds them, or needs no build",
          "[usage]") {
  const fs::path build = fs::path(programs_folder()).parent_path();
  if (!fs::exists(build / "build.ninja")) return;
  const auto ninja = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"ninja", "-C", build.string(), "-t"});
    return run(words, kLimit);
  };
  std::vector<std::string> inputs_of{"inputs", "ddprun"};
  if (ninja({"query", "train"}) == exited(0)) inputs_of.push_back("train");
  const std::string built = "\n" + ninja(inputs_of).out;
  const std::set<std::string> files = installed_files(build);
  CHECK(files.contains("bin/ddprun"));
  for (const std::string& file : files) {
    CAPTURE(file);
    const bool target = file == "bin/ddprun" || file == "bin/train";
    CHECK((target || has(built, "\n" + file + "\n") || !(ninja({"query", file}) == exited(0))));
  }
}

TEST_CASE("a configuration file starts the program it names with the variables it gives", "[usage][sanitized]") {
  const TempFolder folder;
  folder.write(
      "job.toml",
      "nproc-per-node = 2\nprogram = ['sh', '-c', 'echo $COLOUR $RANK of $WORLD_SIZE']\n[env]\nCOLOUR = 'red'\n");
  const Ended ended = ddprun_with({"--config", "job.toml"}, {.cwd = folder.path()});
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "red 0 of 2\n"));
  CHECK(has(ended.out, "red 1 of 2\n"));
}

TEST_CASE("option -v and LOGLEVEL=INFO show at the start what is not the default", "[usage]") {
  for (const auto& [words, options] : std::vector<std::pair<std::vector<std::string>, CommandOptions>>{
           {{"-v", "--max-restarts=5", "true"}, {}},
           {{"true"}, {.env = {{"PET_VERBOSE", "1"}, {"PET_MAX_RESTARTS", "5"}}}},
           {{"true"}, {.env = {{"LOGLEVEL", "INFO"}, {"PET_MAX_RESTARTS", "5"}}}}}) {
    const Ended ended = ddprun_with(words, options);
    CHECK(ended == exited(0));
    for (const char* part :
         {"max-restarts = 5", " ddprun info: event  round-formed round=1", "action start-workers round=1",
          "event  worker-exited round=1 local_rank=0 code=0", "action finish success"})
      CHECK(has(ended.err, part));
    CHECK_FALSE(has(ended.err, "restart-credit"));
  }
  CHECK(ddprun_with({"true"}, {.env = {{"LOGLEVEL", "WARNING"}}}).err.empty());
}

TEST_CASE("a dry run of one of several nodes says what is known before they have met", "[usage]") {
  const Ended ended = ddprun_with({"--nnodes=2", "--master-addr=127.0.0.1", "--dry-run", "true"});
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "RANK='(known when the nodes have met)'"));
  CHECK(has(ended.out, "LOCAL_RANK=0"));
}
