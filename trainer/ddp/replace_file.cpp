#include "trainer/ddp/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "rendezvous/error.h"
#include "rendezvous/fd.h"

namespace ddprun {
namespace {

class Replacement {
 public:
  Replacement(const std::string& path, const std::string& what)
      : path_(path), what_(what), temporary_(path + ".writing." + std::to_string(getpid())) {}
  ~Replacement() {
    if (!renamed_) unlink(temporary_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(const std::vector<std::string_view>& pieces) {
    const Fd file(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) fail();
    for (const std::string_view piece : pieces) write_all(file.get(), piece);
    if (fsync(file.get()) != 0) fail();
  }
  void rename() {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    renamed_ = true;
  }
  void sync_folder() {
    const auto slash = path_.rfind('/');
    const std::string name = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const Fd folder(open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Some file systems cannot sync a folder; the file is there all the same.
    if (!folder || (fsync(folder.get()) != 0 && errno != EINVAL)) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error("cannot write " + what_ + " " + path_, std::strerror(errno),
                "Free some space there, or name another place.");
  }
  void write_all(int fd, std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail();
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  const std::string& path_;
  const std::string& what_;
  const std::string temporary_;
  bool renamed_ = false;
};

}  // namespace

void replace_file(const std::string& path, const std::vector<std::string_view>& pieces, const std::string& what) {
  Replacement replacement(path, what);
  replacement.write(pieces);
  replacement.rename();
  replacement.sync_folder();
}

}  // namespace ddprun
