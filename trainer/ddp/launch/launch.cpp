#include "ddprun/launch.h"

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ddprun/process_group.h"
#include "rendezvous/base/error.h"
#include "trainer/ddp/launch/launch_plan.h"
#include "trainer/ddp/launch/launcher_process.h"

namespace ddprun {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kTimedOut = 124;                         // as in timeout(1)
constexpr std::chrono::seconds kLauncherStopLimit{1};  // the lost peer's death must reach ddprun before ours

[[noreturn]] void refuse_launch(const std::string& why, const std::string& remedy = "") {
  throw UsageError("cannot launch", why, remedy);
}

// launch()'s state in this process.
struct LaunchState {
  std::mutex mutex;
  bool busy = false;  // a call is running; a worker's never ends
  std::optional<LaunchedBy> worker_of;
  std::vector<json> earlier;   // of each finished call: {"result": ...} or {"failure": text, "exit_code": number}
  std::size_t calls_made = 0;  // by a worker, of these calls
};

std::optional<LaunchedBy> consume_launched_by() {
  const char* text = std::getenv(kLaunchedByVariable);
  if (!text) return {};
  auto by = launched_by_from(text);
  unsetenv(kLaunchedByVariable);  // our children are not workers of that call
  return by;
}

void write_file(const fs::path& path, const json& value) {
  std::vector<std::uint8_t> bytes;
  try {
    bytes = json::to_cbor(value);
  } catch (const json::exception& error) {
    throw Error("cannot pass on a value", std::string("it cannot be encoded as CBOR: ") + error.what());
  }
  const fs::path fresh = path.string() + ".new";
  std::ofstream file(fresh, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw Error("cannot write " + fresh.string(), std::strerror(errno), "Is the disk full? TMPDIR names another.");
  fs::rename(fresh, path);
}

json read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("cannot read " + path.string(), std::strerror(errno));
  try {
    return json::from_cbor(file);
  } catch (const json::exception& error) {
    throw Error("cannot read " + path.string(), error.what());
  }
}

LaunchState& launch_state() {
  static auto* const state = [] {
    auto* made = new LaunchState;
    made->worker_of = consume_launched_by();
    if (made->worker_of)
      made->earlier = read_file(fs::path(made->worker_of->folder) / "earlier").get<std::vector<json>>();
    return made;
  }();
  return *state;
}

class Folder {
 public:
  Folder() {
    std::string path = fs::absolute(fs::temp_directory_path() / "ddprun-launch-XXXXXX").string();
    if (!mkdtemp(path.data()))
      throw Error("cannot make a folder " + path, std::strerror(errno), "TMPDIR names another place.");
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string own_library() {
  Dl_info info = {};
  return dladdr(reinterpret_cast<void*>(&own_library), &info) && info.dli_fname ? info.dli_fname : "";
}

std::string find_launcher(const LaunchOptions& options) {
  const auto candidates = launcher_candidates(options, process_environment(), own_library());
  std::string found = first_executable(candidates);
  if (!found.empty()) return found;
  if (candidates.size() == 1)
    refuse_launch("the launcher " + candidates[0] + " is not a program that this user may execute");
  refuse_launch("there is no ddprun beside the library (" + own_library() + ") or in PATH",
                "Install it, or name it in DDPRUN_LAUNCHER or LaunchOptions::ddprun.");
}

struct OwnCommand {
  std::string program;
  std::vector<std::string> arguments;
};

OwnCommand own_command() {
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error).string();
  if (error || access(program.c_str(), X_OK) != 0)
    refuse_launch("the file of this program no longer exists (" + program + ")");
  OwnCommand own{program, {}};
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) own.arguments.push_back(word);
  if (!own.arguments.empty()) own.arguments.erase(own.arguments.begin());
  return own;
}

std::vector<std::string> environment_for(const LaunchedBy& by, const fs::path& end_file) {
  Environment all = process_environment();
  all[kLaunchedByVariable] = to_text(by);
  all[kEndFileVariable] = end_file;
  std::vector<std::string> out;
  for (const auto& [name, value] : all) out.push_back(name + "=" + value);
  return out;
}

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

json run_job(const LaunchOptions& options, const json& arguments, const std::vector<json>& earlier) {
  const std::string ddprun = find_launcher(options);
  const OwnCommand own = own_command();
  const Folder folder;
  write_file(folder.path() / "arguments", arguments);
  write_file(folder.path() / "earlier", earlier);
  std::cout.flush();  // before the workers' output
  std::fflush(nullptr);
  const fs::path end_file = folder.path() / "end";
  const LauncherEnd end = run_launcher(launcher_command(ddprun, options, own.program, own.arguments),
                                       environment_for({earlier.size(), folder.path()}, end_file), options);
  if (end.timed_out || end.exit_code != 0)
    throw LaunchFailed(failure_text(end, message_in(text_of(end_file)), options),
                       end.timed_out ? kTimedOut : end.exit_code);
  if (options.machine_rank != 0) return nullptr;
  if (!fs::exists(folder.path() / "result"))
    throw LaunchFailed(
        "the workers succeeded, but rank 0 has left no result: it did not reach this launch(), or the function ended "
        "the process.",
        1);
  return read_file(folder.path() / "result");
}

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         &std::free);
  return name ? name.get() : type.name();
}

void report_error(const std::string& type, const std::string& what) {
  const std::string text = error_file(type, what, std::chrono::system_clock::now());
  if (const char* path = std::getenv("TORCHELASTIC_ERROR_FILE"); path && *path) std::ofstream(path) << text;
}

void report(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  report_error(name_of(typeid(error)), torch ? torch->what_without_backtrace() : error.what());
  if (is_loss_of_peer(error)) std::this_thread::sleep_for(kLauncherStopLimit);
}

// Not exit(): LibTorch's destructors may wait for threads whose peers are gone.
[[noreturn]] void leave(int code) {
  for (auto* stream : {&std::cout, &std::cerr, &std::clog}) stream->flush();
  std::fflush(nullptr);
  _exit(code);
}

[[noreturn]] void work(const LaunchFunction& function, const LaunchedBy& by) {
  try {
    const json result = function(read_file(fs::path(by.folder) / "arguments"));
    const char* rank = std::getenv("RANK");
    if (rank && std::string(rank) == "0") write_file(fs::path(by.folder) / "result", result);
    leave(0);
  } catch (const std::exception& error) {
    report(error);
  } catch (...) {
    report_error("an exception", "not derived from std::exception");
  }
  leave(1);
}

json earlier_result(const json& record) {
  if (record.contains("result")) return record["result"];
  throw LaunchFailed(record["failure"], record["exit_code"]);
}

json run_call(const LaunchFunction& function, const LaunchOptions& options, const json& arguments,
              const std::vector<json>& earlier) {
  if (const std::string why = already_in_job(process_environment()); !why.empty())
    refuse_launch(why, "Call the function itself, or start this program without a launcher.");
  std::string all;
  for (const std::string& problem : problems(options)) all += (all.empty() ? "" : " ") + problem;
  if (!all.empty()) refuse_launch(all.substr(0, all.size() - 1));
  return runs_in_process(options) ? function(arguments) : run_job(options, arguments, earlier);
}

}  // namespace

bool is_launched_worker() { return launch_state().worker_of.has_value(); }

json launch(const LaunchFunction& function, const LaunchOptions& options, const json& arguments) {
  LaunchState& state = launch_state();
  {
    const std::lock_guard lock(state.mutex);
    if (state.busy)
      refuse_launch(state.worker_of ? "this is in a function that launch() runs" : "another launch() is under way");
    if (state.worker_of && state.calls_made < state.earlier.size())
      return earlier_result(state.earlier[state.calls_made++]);
    state.busy = true;
  }
  if (state.worker_of) work(function, *state.worker_of);
  const auto finish_call = [&](json record) {
    const std::lock_guard lock(state.mutex);
    state.earlier.push_back(std::move(record));
    state.busy = false;
  };
  try {
    json result = run_call(function, options, arguments, state.earlier);
    finish_call({{"result", result}});
    return result;
  } catch (const LaunchFailed& failed) {
    finish_call({{"failure", failed.what()}, {"exit_code", failed.exit_code()}});
    throw;
  } catch (const std::exception& error) {
    finish_call({{"failure", error.what()}, {"exit_code", 1}});
    throw;
  } catch (...) {
    finish_call(
        {{"failure", "the function threw an exception that is not derived from std::exception"}, {"exit_code", 1}});
    throw;
  }
}

json launch(const LaunchFunction& function, const LaunchOptions& options) { return launch(function, options, nullptr); }

}  // namespace ddprun
