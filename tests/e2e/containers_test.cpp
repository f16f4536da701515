// Tests docs/containers/ as far as possible without a container engine: the services' commands run on hosts with the
// services' names and separate process trees; the Dockerfile's own commands build the image's file tree.
#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/support/hosts.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

constexpr auto kJobLimit = 60s;
const fs::path kSource = source_folder();
const fs::path kFolder = kSource / "docs/containers";

std::string dockerfile() { return read_file(kFolder / "Dockerfile"); }
json compose() {
  const std::string convert = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
  return json::parse(run({venv_python(), "-c", convert}, kLimit, {.input = read_file(kFolder / "compose.yaml")}).out);
}

// The Dockerfile's instructions of that name, each with its continuation lines, without the name.
std::vector<std::string> instructions(const std::string& name) {
  std::vector<std::string> found;
  std::istringstream in(std::regex_replace(dockerfile(), std::regex(R"(\\\n *)"), ""));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + " ")) found.push_back(line.substr(name.size() + 1));
  return found;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string replaced(const std::string& text, const std::string& what, const std::string& by) {
  return std::regex_replace(text, std::regex(what), by);
}

std::string torch_folder() {
  const fs::path lib = fs::path(torch_python()).parent_path().parent_path() / "lib";
  for (const auto& version : fs::directory_iterator(lib))
    if (fs::exists(version.path() / "site-packages/torch")) return version.path() / "site-packages/torch";
  return "";
}

// The services as compose starts them: each on a host with its name, in its folder, as process 1.
class Services {
 public:
  Services() : services_(compose()["services"]), hosts_(static_cast<int>(services_.size())) {
    std::string names = "127.0.0.1 localhost\n";
    int host = 0;
    for (const auto& [name, service] : services_.items()) names += Hosts::address(host++) + " " + name + "\n";
    folder_.write("hosts", names);
    const Ended made = run(job_of({"--make-token"}), kLimit);
    token_ = made.out.substr(0, made.out.find('\n'));
  }

  void start() {
    nodes_.clear();
    int host = 0;
    for (const auto& [name, service] : services_.items()) {
      fs::create_directories(folder_ / name);
      const std::string script = R"(mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@")";
      const Words words = joined({{"sh", "-c", script, folder_ / "hosts", service["hostname"]},
                                  {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"},
                                  service["command"]});
      nodes_.push_back(std::make_unique<Command>(hosts_.on(host++, words),
                                                 CommandOptions{.env = environment(service), .cwd = folder_ / name}));
    }
  }
  Command& node(int index) { return *nodes_.at(static_cast<std::size_t>(index)); }
  int count() const { return static_cast<int>(nodes_.size()); }
  // Like `docker stop`: signals process 1 of each.
  void stop() {
    for (const auto& node : nodes_)
      for (const Process& process : node->processes())
        if (process.parent == node->pid()) ::kill(process.pid, SIGTERM);
  }
  fs::path job_folder(const std::string& name) const { return folder_ / name; }

 private:
  std::map<std::string, std::optional<std::string>> environment(const json& service) const {
    std::map<std::string, std::optional<std::string>> env{
        {"PATH", programs_folder() + ":/usr/sbin:/usr/bin:/sbin:/bin"}};
    for (const auto& [name, value] : service["environment"].items()) {
      REQUIRE(value.get<std::string>().starts_with("${DDPRUN_TOKEN:?"));
      env[name] = token_;
    }
    return env;
  }

  json services_;
  Hosts hosts_;
  TempFolder folder_;
  std::string token_;
  std::vector<std::unique_ptr<Command>> nodes_;
};

}  // namespace

TEST_CASE(
    "the services of compose.yaml train as one job, save when they are stopped, and go on when they are started again",
    "[docs]") {
  if (!hosts_or_skip()) return;
  Services services;
  services.start();
  REQUIRE(services.count() == 2);
  services.node(0).wait_for_output("^epoch 2 ", kJobLimit);
  services.stop();
  for (int i = 0; i < services.count(); ++i) CHECK(services.node(i).wait_exit(kJobLimit) == exited(75));
  services.start();
  for (int i = 0; i < services.count(); ++i) CHECK(services.node(i).wait_exit(kJobLimit) == exited(0));
  CHECK(has(services.node(0).out(), "resuming from snapshot-convnet-digits.pt"));
  CHECK(has(services.node(0).out(), "done: 20 epochs"));
  CHECK((read_file(services.job_folder("node0") / "snapshot-convnet-digits.pt") ==
         read_file(services.job_folder("node1") / "snapshot-convnet-digits.pt")));
}

TEST_CASE(
    "compose.yaml names the Dockerfile beside it, a volume for each service, and longer to stop than ddprun takes",
    "[docs]") {
  const json all = compose();
  std::set<std::string> volumes;
  for (const auto& [name, service] : all["services"].items()) {
    INFO(name);
    CHECK(service["hostname"] == name);
    std::string command = name + "$";
    for (const std::string word : service["command"]) command += " " + word;
    CHECK(has(read_file(kFolder / "../containers.md"), command + "\n"));  // as shown on the page
    const fs::path context = kFolder / service["build"]["context"].get<std::string>();
    CHECK(fs::equivalent(context, kSource));
    CHECK(fs::equivalent(context / service["build"]["dockerfile"].get<std::string>(), kFolder / "Dockerfile"));
    CHECK(service["stop_grace_period"] == "30s");
    const std::string volume = service["volumes"].at(0), at = volume.substr(volume.find(':') + 1);
    CHECK(all["volumes"].contains(volume.substr(0, volume.find(':'))));
    CHECK(instructions("WORKDIR").back() == at);
    CHECK(volumes.insert(volume).second);
  }
}

TEST_CASE("what the Dockerfile copies is there, and is all that its build reads", "[docs]") {
  const TempFolder folder;
  for (const std::string& line : instructions("COPY")) {
    const std::vector<std::string> words = words_of(line);
    if (words[0].starts_with("--from")) continue;
    const fs::path to = folder / words.back();
    const bool into = words.back().ends_with("/");  // the target is a folder, else a file
    fs::create_directories(into ? to : to.parent_path());
    for (auto path = words.begin(); path + 1 != words.end(); ++path) {
      INFO(*path);
      REQUIRE(fs::exists(kSource / *path));
      fs::copy(kSource / *path, into ? to / fs::path(*path).filename() : to, fs::copy_options::recursive);
    }
  }
  CHECK(run({"scripts/setup.sh", "--help"}, kLimit, {.cwd = folder.path()}) == exited(0));
  CHECK(fs::exists(folder / "data/digits"));
  std::string configure;
  for (const std::string& line : instructions("RUN"))
    if (line.starts_with("cmake ")) configure = line.substr(0, line.find(" &&"));
  const Ended configured =
      run({"sh", "-c", configure}, kJobLimit, {.env = {{"DDPRUN_TORCH_DIR", torch_folder()}}, .cwd = folder.path()});
  CAPTURE(configured.out, configured.err);
  CHECK(configured == exited(0));
  CHECK(fs::exists(folder / "build/release/build.ninja"));
}

TEST_CASE(
    "the image has all libraries that ddprun and train load: LibTorch copied, the others of Debian packages it names",
    "[docs]") {
  const TempFolder folder;
  const std::string tree = folder / "tree";
  REQUIRE(run({"cmake", "--install", programs_folder() + "/..", "--prefix", tree}, 60s) == exited(0));
  std::string copy, packages = "libc6 libgcc-s1 ";  // those in every image: Essential ones and their dependencies
  for (const std::string& line : instructions("RUN")) {
    if (line.starts_with("ldd ")) copy = line;
    if (has(line, "apt-get install")) packages += line;
  }
  REQUIRE_FALSE(copy.empty());
  for (const std::string& package : words_of(packages))  // apt installs what they depend on
    packages += " " + replaced(run({"dpkg-query", "-W", "-f=${Depends}", package}, kLimit).out, ",", " ");
  REQUIRE(run({"sh", "-c", replaced(copy, "/opt/ddprun", tree)}, kJobLimit) == exited(0));
  CHECK_FALSE(fs::exists(tree + "/lib/libddprun_gpu.so"));

  const Ended listed =
      run({"sh", "-c", "ldd " + tree + "/bin/* " + tree + "/lib/*.so " + tree + "/lib/ddprun/*.so"}, kLimit);
  REQUIRE(listed == exited(0));
  CHECK_FALSE(has(listed.out, "not found"));
  CHECK_FALSE(has(listed.out, "site-packages"));
  std::set<std::string> names;
  const std::regex system(R"((\S+) => /(?:usr/)?lib/)");
  for (std::sregex_iterator at(listed.out.begin(), listed.out.end(), system), end; at != end; ++at)
    names.insert(at->str(1));
  CHECK(names.size() >= 5);
  for (const std::string& name : names) {
    const std::string owner = run({"dpkg", "-S", "*-linux-gnu/" + name}, kLimit).out;
    INFO(owner);
    CHECK(has(" " + packages + " ", " " + owner.substr(0, owner.find(':')) + " "));
  }
  const Ended trained = run({tree + "/bin/ddprun", "--nproc-per-node=2", "train", "1"}, kJobLimit,
                            {.env = {{"PATH", "/usr/bin:/bin"}}, .cwd = folder.path()});
  CHECK(trained == exited(0));
  CHECK(has(trained.out, "done: 1 epoch,"));
}
