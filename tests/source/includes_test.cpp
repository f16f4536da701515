// Which folder may include which: every #include of the sources points down this table.
#include "tests/support/test.h"

namespace {

using Folders = std::vector<std::string>;

struct Folder {
  std::string name;
  Folders may_include;  // besides itself
};

const std::string kPublic = "trainer/include/ddprun";

// Lower folders first: none includes one below it in this list. A folder, and what it may include besides itself.
constexpr const char* kTable = R"(
rendezvous/base:
rendezvous/channel:
rendezvous/prefork: rendezvous/base
rendezvous/memory: rendezvous/base
rendezvous/peer: rendezvous/base
rendezvous/store: rendezvous/base rendezvous/peer
rendezvous/store/proxy: rendezvous/base rendezvous/peer rendezvous/store
rendezvous/coordination/account: rendezvous/base
rendezvous/coordination/round: rendezvous/base rendezvous/channel rendezvous/coordination/account rendezvous/peer
rendezvous/coordination/inquiry: rendezvous/base rendezvous/coordination/account rendezvous/coordination/round
rendezvous/coordination: rendezvous/base rendezvous/coordination/account rendezvous/coordination/inquiry
    rendezvous/coordination/round
rendezvous/coordination/election: rendezvous/base rendezvous/coordination rendezvous/coordination/round
rendezvous/coordination/wire: rendezvous/base rendezvous/coordination rendezvous/coordination/election
    rendezvous/coordination/round rendezvous/peer
rendezvous/coordination/server: rendezvous/base rendezvous/coordination rendezvous/coordination/election
    rendezvous/coordination/round rendezvous/coordination/wire rendezvous/peer rendezvous/store rendezvous/store/proxy
rendezvous/etcd: rendezvous/base rendezvous/coordination rendezvous/coordination/round rendezvous/coordination/server
    rendezvous/coordination/wire
agent/process/files: rendezvous/base
agent/process: agent/process/files rendezvous/base rendezvous/channel rendezvous/coordination/round
agent/process/groups: agent/process agent/process/files rendezvous/base
agent/channel: agent/process rendezvous/base rendezvous/channel rendezvous/coordination/round
agent/prefork: agent/channel agent/process agent/process/files rendezvous/base rendezvous/prefork
agent/diagnosis: agent/channel agent/process agent/process/files agent/process/groups rendezvous/base
    rendezvous/coordination/account rendezvous/coordination/round
agent/logs: agent/diagnosis agent/process agent/process/files rendezvous/base rendezvous/coordination/round
agent/stacks: agent/process agent/process/files rendezvous/base
agent/http/page:
agent/http: agent/process/files rendezvous/base rendezvous/peer
agent/etcd: agent/http agent/process/files rendezvous/base rendezvous/coordination/round rendezvous/etcd
agent/push: agent/http rendezvous/base
agent/status: rendezvous/base rendezvous/coordination rendezvous/coordination/account rendezvous/coordination/inquiry
    rendezvous/coordination/round
agent/hang: agent/channel agent/logs agent/process agent/process/files agent/stacks rendezvous/base
    rendezvous/coordination rendezvous/coordination/account rendezvous/coordination/inquiry
    rendezvous/coordination/round
agent/faults: rendezvous/coordination/inquiry
agent/machine: agent/diagnosis agent/process rendezvous/base rendezvous/coordination/round
agent/desk: agent/channel agent/diagnosis agent/hang agent/http agent/http/page agent/logs agent/process
    agent/process/files agent/push agent/stacks agent/status rendezvous/base rendezvous/coordination
    rendezvous/coordination/inquiry rendezvous/coordination/round rendezvous/coordination/wire rendezvous/peer
agent/copies: rendezvous/base rendezvous/coordination/round rendezvous/memory rendezvous/peer rendezvous/store
agent/link: agent/etcd agent/logs agent/process agent/process/files rendezvous/base rendezvous/coordination
    rendezvous/coordination/election rendezvous/coordination/round rendezvous/coordination/server
    rendezvous/coordination/wire rendezvous/etcd rendezvous/peer rendezvous/store/proxy
agent/round: agent/channel agent/copies agent/link agent/logs agent/prefork agent/process agent/process/files
    agent/process/groups rendezvous/base rendezvous/coordination/round rendezvous/coordination/server
    rendezvous/memory rendezvous/peer rendezvous/store rendezvous/store/proxy
agent/tell: agent/channel agent/diagnosis agent/hang agent/link agent/logs agent/process agent/process/files
    agent/round agent/stacks rendezvous/base rendezvous/coordination rendezvous/coordination/round
    rendezvous/coordination/wire
agent: agent/channel agent/desk agent/faults agent/hang agent/link agent/logs agent/machine agent/process agent/push
    agent/round agent/tell rendezvous/base rendezvous/peer
launcher/view: rendezvous/base
launcher/settings: rendezvous/base
launcher/scheduler: launcher/settings rendezvous/base rendezvous/peer
launcher/ssh: agent/logs agent/process agent/process/files agent/round launcher/scheduler launcher/settings
    launcher/view rendezvous/base rendezvous/coordination/round rendezvous/peer
launcher/report: rendezvous/base rendezvous/coordination/account
launcher/chaos: launcher/settings launcher/view rendezvous/base rendezvous/coordination/inquiry
launcher/config: agent/desk agent/diagnosis agent/etcd agent/hang agent/http agent/logs agent/machine agent/process
    agent/process/files agent/process/groups agent/push agent/round launcher/scheduler launcher/settings
    launcher/ssh rendezvous/base rendezvous/coordination/round rendezvous/peer
launcher/print: agent/process agent/process/groups launcher/config launcher/settings rendezvous/base
launcher/plan: agent agent/diagnosis agent/link agent/logs agent/process agent/process/files agent/process/groups
    launcher/config launcher/print launcher/scheduler launcher/ssh rendezvous/base rendezvous/coordination
    rendezvous/peer
launcher/jobs: agent/logs agent/process agent/process/files launcher/config launcher/plan launcher/print
    launcher/settings rendezvous/base rendezvous/coordination/round
launcher/jobs/places: launcher/jobs launcher/scheduler launcher/settings rendezvous/base
launcher/running: agent/etcd agent/process agent/status launcher/config launcher/jobs launcher/jobs/places
    launcher/plan launcher/view rendezvous/base rendezvous/coordination/wire rendezvous/peer
launcher/command: agent/http/page agent/process agent/process/files agent/status launcher/chaos launcher/config
    launcher/jobs launcher/jobs/places launcher/plan launcher/report launcher/running launcher/scheduler
    launcher/settings launcher/view rendezvous/base rendezvous/coordination/inquiry rendezvous/coordination/round
    rendezvous/peer
launcher: agent agent/logs agent/process agent/process/files agent/tell launcher/command launcher/config launcher/jobs
    launcher/plan launcher/print launcher/ssh rendezvous/base rendezvous/channel rendezvous/peer
trainer/include/ddprun:
trainer/ddp/group: trainer/include/ddprun rendezvous/base rendezvous/channel rendezvous/peer rendezvous/store
trainer/ddp/collectives: trainer/include/ddprun rendezvous/base rendezvous/channel trainer/ddp/group
trainer/ddp/parallel: trainer/include/ddprun rendezvous/base rendezvous/channel trainer/ddp/collectives
    trainer/ddp/group
trainer/ddp/data: trainer/include/ddprun rendezvous/base rendezvous/channel
trainer/ddp/snapshot: trainer/include/ddprun rendezvous/base rendezvous/channel rendezvous/memory rendezvous/store
    trainer/ddp/collectives trainer/ddp/group
trainer/ddp/launch: trainer/include/ddprun rendezvous/base rendezvous/channel rendezvous/prefork trainer/ddp/group
    trainer/ddp/snapshot
trainer/ddp:
trainer/data: trainer/include/ddprun rendezvous/base
trainer/models: trainer/include/ddprun launcher/settings rendezvous/base
trainer/config: launcher/settings rendezvous/base trainer/data trainer/models
trainer/metrics: rendezvous/base
trainer/start: rendezvous/base
trainer/tour: trainer/include/ddprun rendezvous/base trainer/config trainer/ddp/group trainer/ddp/snapshot
trainer/machine: trainer/include/ddprun rendezvous/base trainer/config trainer/ddp/group trainer/ddp/snapshot
trainer/loop: trainer/include/ddprun rendezvous/base rendezvous/channel trainer/config trainer/data
    trainer/ddp/collectives trainer/ddp/group trainer/ddp/snapshot trainer/machine trainer/metrics trainer/models
trainer/program: trainer/include/ddprun rendezvous/base rendezvous/channel trainer/config trainer/data
    trainer/ddp/collectives trainer/ddp/group trainer/loop trainer/machine trainer/tour
trainer: trainer/include/ddprun rendezvous/base trainer/config trainer/machine trainer/program
)";

// What can wait for a file server or a name server, and the folders of agent/ and rendezvous/ that may include it: they
// read /proc, or call it in a thread that is for that. Files go through agent/process/file_thread.
const std::map<std::string, std::set<std::string>> kMayWait{
    {"fstream", {"agent/channel", "agent/faults", "agent/tell", "rendezvous/prefork", "rendezvous/store"}},
    {"netdb.h", {"rendezvous/peer"}},
    {"pwd.h", {}},
    {"grp.h", {}}};

const std::vector<Folder>& table() {
  static const std::vector<Folder> kFolders = [] {
    std::vector<Folder> folders;
    std::istringstream words(kTable);
    for (std::string word; words >> word;)
      if (word.ends_with(':'))
        folders.push_back({word.substr(0, word.size() - 1), {}});
      else
        folders.back().may_include.push_back(word);
    return folders;
  }();
  return kFolders;
}

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// The folder of what is named in quotes; public headers are named as their users name them.
std::string folder_included(const std::string& name) { return name.starts_with("ddprun/") ? kPublic : folder_of(name); }

std::vector<std::string> includes(const fs::path& file, const std::string& open = "\"", const std::string& end = "\"") {
  const std::regex kInclude("^#include " + open + "([^\"<>]+)" + end);
  std::vector<std::string> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (std::smatch found; std::regex_search(line, found, kInclude)) out.push_back(found[1]);
  return out;
}

bool is_source(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; }

}  // namespace

TEST_CASE("no folder includes one that is above it", "[includes]") {
  std::map<std::string, std::set<std::string>> allowed;
  for (const Folder& folder : table()) {
    for (const std::string& below : folder.may_include) {
      INFO(folder.name << " may include " << below << ", which comes after it");
      CHECK(allowed.contains(below));
    }
    allowed[folder.name] = {folder.may_include.begin(), folder.may_include.end()};
    allowed[folder.name].insert(folder.name);
  }
  std::set<std::string> seen;
  for (const char* top : {"launcher", "agent", "rendezvous", "trainer"})
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(fs::path(ddprun::test::source_folder()) / top)) {
      const std::string path = fs::relative(entry.path(), ddprun::test::source_folder()).string();
      if (!is_source(entry.path()) || path.starts_with("trainer/ddp/gloo_shim/")) continue;
      INFO(path);
      REQUIRE(allowed.contains(folder_of(path)));
      seen.insert(folder_of(path));
      for (const std::string& name : includes(entry.path())) {
        INFO("includes " << name);
        CHECK(allowed.at(folder_of(path)).contains(folder_included(name)));
      }
      if (path.starts_with("launcher/") || path.starts_with("trainer/")) continue;
      for (const std::string& name : includes(entry.path(), "<", ">")) {
        INFO("includes " << name);
        CHECK((!kMayWait.contains(name) || kMayWait.at(name).contains(folder_of(path))));
      }
    }
  CHECK(seen.size() == allowed.size());
}
