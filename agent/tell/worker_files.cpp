#include "agent/tell/worker_files.h"

#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t kErrorFileMax = 4 << 20, kScriptMax = 256 << 10;

}  // namespace

WorkerFiles::WorkerFiles(bool by_thread, std::function<void(const std::string&)> say) {
  if (by_thread) thread_.emplace(std::move(say), FileThread::Options{.last_write_limit = Duration::zero()});
}

std::string WorkerFiles::error_file(const std::filesystem::path& path, Links links) {
  if (path.empty()) return {};
  return read(path, [path, links] { return beginning_of_file(path, kErrorFileMax, links); });
}

std::string WorkerFiles::script(const std::filesystem::path& path) {
  if (path.empty()) return {};
  return read(path, [path] { return beginning_of_file(path, kScriptMax); });
}

std::string WorkerFiles::newest(const std::filesystem::path& path, std::uintmax_t begin) {
  return read(path, [path, begin] { return newest_part(path, begin); });
}

std::string WorkerFiles::read(const std::filesystem::path& path, const std::function<std::string()>& read) {
  return thread_ ? thread_->ask(path.string(), read).value_or("") : read();
}

}  // namespace ddprun::agent
