// A file system in memory that can lose its power: what was not synced is then gone, wholly or in part.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "trainer/ddp/snapshot/files.h"

namespace ddprun::test {

struct PowerCut {};

class FakeFiles : public Files {
 public:
  // The operation with this number, from 0, does not happen any more: PowerCut. -1: never.
  int cut_at = -1;
  int operations = 0;
  // The next operation throws a std::system_error with this number.
  int errno_of_next = 0;
  int reads = 0;
  int errno_of_read = 0;  // the same of the next read()
  bool no_memory_for_next_read = false;
  bool has_links = true;

  enum class Survives { nothing, everything, some };
  // The power is back. Of what was not synced, so much is there: names, and heads of contents.
  void restart(Survives survives, unsigned seed = 0);

  void put(const std::string& path, const std::string& content);  // there and synced

  std::vector<std::string> names(const std::string& folder) override;
  std::optional<std::string> read(const std::string& path) override;
  std::string identity(const std::string& path) override;
  std::unique_ptr<NewFile> create(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  bool link(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  void sync_folder(const std::string& folder) override;
  void check_writable(const std::string&) override {}

 private:
  struct Content {
    std::string now, synced;
  };
  struct Open;
  using Folder = std::map<std::string, std::shared_ptr<Content>>;

  void operation();
  // Of a folder's names, now and, should they reach the disk, later.
  void change(std::function<void(Folder&)> how);

  Folder now_, synced_;
  std::vector<std::function<void(Folder&)>> changes_;  // since sync_folder()
};

}  // namespace ddprun::test
