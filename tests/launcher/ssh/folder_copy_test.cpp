// What is said to rsync, and what it says.
#include "launcher/ssh/folder_copy.h"

#include <algorithm>

#include "tests/support/test.h"

namespace {

ProgramEnd ended(int code, const std::string& err) { return {.code = code, .err = err}; }

std::string said(const ProgramEnd& end) {
  const auto failure = copy_failure({"ssh", "-p", "2222"}, "/home/vera/digits", "host1", end);
  return failure ? failure->what() : "";
}

}  // namespace

TEST_CASE("a folder goes to the same path by the user's own ssh, and deletes nothing there", "[sync]") {
  const Words words = rsync_command({"ssh", "-i", "my key"}, "/home/vera/my digits", "vera@fd99::1");
  const auto has = [&](const std::string& word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  CHECK(words.front() == "rsync");
  CHECK(words.back() == "vera@[fd99::1]:/home/vera/my digits/");
  CHECK(words[words.size() - 2] == "/home/vera/my digits/");
  CHECK(has("--update"));
  CHECK(has("--rsync-path=mkdir -p '/home/vera/my digits' && rsync"));
  CHECK(std::none_of(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("--delete"); }));
  CHECK(std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("--rsh=ssh -i 'my key' -T -oBatchMode=yes");
  }));
}

TEST_CASE("what rsync has sent is read from its words", "[sync]") {
  const FolderCopy copy = copied_of(
      "Number of files: 9\nNumber of regular files transferred: 1,203\n"
      "a/note is newer\nTotal file size: 5 bytes\nTotal bytes sent: 12,345,678\nTotal bytes received: 9\n");
  CHECK(copy.files == 1203);
  CHECK(copy.bytes == 12'345'678);
  CHECK(copy.newer_there == Words{"a/note"});
  CHECK(copied_of("").files == 0);
  CHECK(newer_files("host1", {}).empty());
  CHECK(newer_files("host1", {"a"}) == "on host1 a file is newer and stays: a.");
  CHECK(newer_files("host1", {"a", "b", "c", "d", "e"}) == "on host1 files are newer and stay: a, b, c and 2 more.");
}

TEST_CASE("a copy that failed says why, and a file that went away meanwhile is no failure", "[sync]") {
  CHECK(said(ended(0, "")).empty());
  CHECK(said(ended(24, "file has vanished: \"/a\"\n")).empty());
  CHECK(
      said(ended(255,
                 "ssh: connect to host host1 port 22: No route to host\nrsync: connection unexpectedly closed\n")) ==
      "cannot copy /home/vera/digits to host1 (--sync): ssh: connect to host host1 port 22: No route to host. Try: ssh "
      "-p 2222 -o BatchMode=yes host1 true");
  CHECK(
      said(ended(12, "bash: line 1: rsync: command not found\nrsync error: error in rsync protocol data stream\n")) ==
      "cannot copy /home/vera/digits to host1 (--sync): bash: line 1: rsync: command not found. Install rsync there.");
  CHECK(
      said(ended(23, "rsync: write failed on \"/x\": No space left on device (28)\nrsync error: some files\n")) ==
      "cannot copy /home/vera/digits to host1 (--sync): rsync: write failed on \"/x\": No space left on device (28).");
  CHECK_THAT(said({.how = ProgramEnd::How::not_found}),
             Contains("no rsync on PATH. Install it here and on the hosts."));
}
