#include "tests/trainer/fake_files.h"

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace ddprun::test {

struct FakeFiles::Open : NewFile {
  Open(FakeFiles& f, std::shared_ptr<Content> c) : files(f), content(std::move(c)) {}
  void append(const void* data, std::size_t size) override {
    files.operation();
    content->now.append(static_cast<const char*>(data), size);
  }
  void sync() override {
    files.operation();
    content->synced = content->now;
  }
  FakeFiles& files;
  std::shared_ptr<Content> content;
};

void FakeFiles::operation() {
  if (const int error = std::exchange(errno_of_next, 0)) throw std::system_error(error, std::generic_category());
  if (operations++ == cut_at) throw PowerCut{};
}

void FakeFiles::change(std::function<void(Folder&)> how) {
  how(now_);
  changes_.push_back(std::move(how));
}

void FakeFiles::restart(Survives survives, unsigned seed) {
  std::mt19937 random(seed);
  const auto survived = [&] {
    return survives == Survives::everything || (survives == Survives::some && random() % 2 == 0);
  };
  for (const auto& how : changes_)
    if (survived()) how(synced_);
  changes_.clear();
  for (auto& [name, content] : synced_) {
    const std::size_t head = content->synced.size(), rest = content->now.size() - head;
    if (survives == Survives::everything) content->synced = content->now;
    if (survives == Survives::some) content->synced = content->now.substr(0, head + random() % (rest + 1));
    content->now = content->synced;
  }
  now_ = synced_;
  cut_at = -1;
  operations = 0;
}

void FakeFiles::put(const std::string& path, const std::string& content) {
  now_[path] = synced_[path] = std::make_shared<Content>(Content{content, content});
}

std::vector<std::string> FakeFiles::names(const std::string& folder) {
  std::vector<std::string> result;
  for (const auto& [path, content] : now_)
    if (folder_of(path) == folder) result.push_back(path.substr(path.rfind('/') + 1));
  return result;
}

std::optional<std::string> FakeFiles::read(const std::string& path) {
  ++reads;
  if (const int error = std::exchange(errno_of_read, 0)) throw std::system_error(error, std::generic_category());
  if (std::exchange(no_memory_for_next_read, false)) throw std::bad_alloc();
  const auto it = now_.find(path);
  return it == now_.end() ? std::nullopt : std::optional(it->second->now);
}

std::string FakeFiles::identity(const std::string& path) {
  const auto found = now_.find(path);
  if (found == now_.end()) return {};
  return std::to_string(reinterpret_cast<std::uintptr_t>(found->second.get())) + " " +
         std::to_string(found->second->now.size());
}

std::unique_ptr<NewFile> FakeFiles::create(const std::string& path) {
  operation();
  const auto content = std::make_shared<Content>();
  change([=](Folder& folder) { folder[path] = content; });
  return std::make_unique<Open>(*this, content);
}

void FakeFiles::rename(const std::string& from, const std::string& to) {
  operation();
  const auto it = now_.find(from);
  if (it == now_.end()) throw std::system_error(ENOENT, std::generic_category());
  change([=, content = it->second](Folder& folder) {
    folder[to] = content;
    folder.erase(from);
  });
}

bool FakeFiles::link(const std::string& from, const std::string& to) {
  operation();
  if (!has_links) return false;
  if (now_.count(to)) throw std::system_error(EEXIST, std::generic_category());
  change([=, content = now_.at(from)](Folder& folder) { folder[to] = content; });
  return true;
}

void FakeFiles::remove(const std::string& path) {
  operation();
  change([=](Folder& folder) { folder.erase(path); });
}

void FakeFiles::sync_folder(const std::string&) {
  operation();
  synced_ = now_;
  changes_.clear();
}

}  // namespace ddprun::test
