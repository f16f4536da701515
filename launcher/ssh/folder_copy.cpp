#include "launcher/ssh/folder_copy.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <future>
#include <string_view>

#include "launcher/settings/values.h"
#include "launcher/ssh/ssh_command.h"
#include "launcher/view/units.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kCopiesAtOnce = 16;
constexpr std::chrono::hours kCopyLimit{24};  // rsync has its own limit for a host that falls silent
constexpr int kVanished = 24;                 // a file went away meanwhile: a log, say
constexpr int kSshFailed = 255, kCommandNotFound = 127;
constexpr std::size_t kNamedMax = 3;

// Behind `name`, as "1,234,567 bytes".
double number_behind(const std::string& text, std::string_view name) {
  double out = 0;
  const std::size_t at = text.find(name);
  if (at == text.npos) return 0;
  for (std::size_t i = at + name.size(); i < text.size() && text[i] != '\n'; ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])))
      out = 10 * out + (text[i] - '0');
    else if (text[i] != ',' && text[i] != '.')
      break;
  }
  return out;
}

// The first line that says why; the last ones are rsync's own about its exit.
std::string first_complaint(const ProgramEnd& end) {
  for (const std::string& line : split(end.err, '\n')) {
    std::string text = visible(settings::trimmed(line));
    if (!text.empty() && !text.starts_with("Warning: Permanently added")) return text;
  }
  return "rsync ended with " + std::to_string(end.code);
}

std::string counted(long count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string as_rsync_names(const std::string& host) {
  const std::size_t name = host.find('@') == host.npos ? 0 : host.find('@') + 1;
  return host.find(':') == host.npos ? host : host.substr(0, name) + "[" + host.substr(name) + "]";
}

}  // namespace

std::vector<std::string> rsync_command(const std::vector<std::string>& ssh, const std::string& folder,
                                       const std::string& host) {
  return {"rsync",
          "--archive",
          "--no-owner",
          "--no-group",
          "--update",
          "--exclude=.git",
          "--filter=:- .gitignore",
          "--protect-args",
          "--timeout=300",  // without a byte, as a disk that other users load may be for a while
          "--stats",
          "--info=skip1",
          "--no-human-readable",
          "--rsh=" + pasted(with_ssh_options(ssh)),
          "--rsync-path=mkdir -p " + shell_word(folder) + " && rsync",
          folder + "/",
          as_rsync_names(host) + ":" + folder + "/"};
}

FolderCopy copied_of(const std::string& rsync_said) {
  constexpr std::string_view kNewer = " is newer";
  FolderCopy copy{static_cast<long>(number_behind(rsync_said, "Number of regular files transferred: ")),
                  number_behind(rsync_said, "Total bytes sent: "),
                  {}};
  for (const std::string& line : split(rsync_said, '\n'))
    if (line.ends_with(kNewer)) copy.newer_there.push_back(line.substr(0, line.size() - kNewer.size()));
  return copy;
}

std::string newer_files(const std::string& host, const std::vector<std::string>& files) {
  if (files.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < std::min(files.size(), kNamedMax); ++i) names += (i > 0 ? ", " : "") + visible(files[i]);
  if (files.size() > kNamedMax) names += " and " + std::to_string(files.size() - kNamedMax) + " more";
  return "on " + host + (files.size() == 1 ? " a file is newer and stays: " : " files are newer and stay: ") + names +
         ".";
}

std::optional<Error> copy_failure(const std::vector<std::string>& ssh, const std::string& folder,
                                  const std::string& host, const ProgramEnd& end) {
  const std::string what = "cannot copy " + folder + " to " + host + " (--sync)";
  if (end.how == ProgramEnd::How::not_found)
    return Error(what, "there is no rsync on PATH", "Install it here and on the hosts.");
  if (end.how == ProgramEnd::How::too_late) return Error(what, "rsync has not ended after a day");
  if (end.succeeded() || end.code == kVanished) return {};
  const std::string said = first_complaint(end);
  if (end.code == kSshFailed) return Error(what, said, try_reaching(ssh, host));
  const bool no_rsync = end.code == kCommandNotFound || said.find("not found") != said.npos;
  return Error(what, said, no_rsync ? "Install rsync there." : "");
}

void copy_folder(const std::vector<std::string>& ssh, const std::string& folder,
                 const std::vector<std::string>& hosts) {
  const TimePoint begin = Clock::now();
  FolderCopy all;
  for (std::size_t first = 0; first < hosts.size(); first += kCopiesAtOnce) {
    std::vector<std::future<ProgramEnd>> copies;
    for (std::size_t i = first; i < std::min(first + kCopiesAtOnce, hosts.size()); ++i)
      copies.push_back(std::async(std::launch::async,
                                  [&, i] { return run_program(rsync_command(ssh, folder, hosts[i]), kCopyLimit); }));
    std::optional<Error> failure;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const ProgramEnd end = copies[i].get();
      if (!failure) failure = copy_failure(ssh, folder, hosts[first + i], end);
      const FolderCopy one = copied_of(end.out);
      all.files += one.files, all.bytes += one.bytes;
      if (const std::string newer = newer_files(hosts[first + i], one.newer_there); !newer.empty())
        print_line(stderr, "ddprun: " + newer);
    }
    if (failure) throw *failure;
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::chrono::duration<double>(Clock::now() - begin).count());
  print_line(stderr, "ddprun: " + folder + " went to " + counted(static_cast<long>(hosts.size()), "host") + ": " +
                         counted(all.files, "file") + ", " + bytes_text(all.bytes) + ", in " + seconds + ".");
}

}  // namespace ddprun::launcher
