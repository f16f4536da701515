#include "agent/process/files/renewed_files.h"

#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "agent/process/files/regular_file.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kRenewedMax = 1 << 20;  // of a file

}  // namespace

// Of files whose stamps are not those in use any more.
struct RenewedFiles::Texts {
  Texts() = default;
  Texts(Texts&&) = default;
  Texts& operator=(Texts&&) = default;
  ~Texts() {
    for (std::string& text : texts) explicit_bzero(text.data(), text.size());
  }
  Stamps stamps = {};
  std::vector<std::string> texts = {};
};

RenewedFiles::RenewedFiles(Options options, FileThread& thread, Use use, std::function<void(const std::string&)> say)
    : options_(std::move(options)), thread_(thread), use_(std::move(use)), say_(std::move(say)) {}

RenewedFiles::Stamp RenewedFiles::stamp_of(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

// Stamps from before the files are read: a change meanwhile is found by the next check.
RenewedFiles::Texts RenewedFiles::read_changed(const std::vector<std::string>& files,
                                               const std::optional<Stamps>& used) {
  Texts out;
  for (const std::string& file : files) out.stamps.push_back(stamp_of(file));
  if (out.stamps == used) return out;
  for (const std::string& file : files) out.texts.push_back(beginning_of_file(file, kRenewedMax));
  return out;
}

std::string RenewedFiles::read() { return take(read_changed(options_.files, {})); }

std::string RenewedFiles::take(const Texts& texts) {
  for (std::size_t i = 0; i < texts.texts.size(); ++i)
    if (texts.texts[i].empty()) return options_.files[i] + " is empty or cannot be read";
  std::string why = use_(texts.texts);
  if (!why.empty()) return why;
  used_ = texts.stamps;
  failures_ = 0;
  return {};
}

void RenewedFiles::check() {
  const TimePoint now = Clock::now();
  if (now - checked_ < options_.check_every) return;
  checked_ = now;
  const auto texts = thread_.ask("the " + options_.what + " " + options_.files.front(),
                                 [files = options_.files, used = used_] { return read_changed(files, used); });
  if (!texts) return;
  if (texts->stamps == used_) return void(failures_ = 0);
  const std::string why = take(*texts);
  if (!why.empty() && ++failures_ == options_.said_after)
    say_("the new " + options_.what + " cannot be used: " + why + "; the old one stays in use");
}

}  // namespace ddprun::agent
