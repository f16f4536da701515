// Where snapshots lie on disk: PATH is the newest, PATH.previous the one before it.
//
// A file is there whole or not at all: it is written under a temporary name, synced, renamed, and its folder synced. A
// file that fails `verify` is put aside as PATH.damaged with a warning, and the previous one counts. Knows bytes only;
// what they mean is snapshot.h's matter. Only one process at a time writes (rank 0). What the disk refuses is an Error.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace ddprun {

struct FoundSnapshot {
  std::string path;
  std::string bytes;
};

// `verify` throws an Error for bytes that are no good; `warn` gets a sentence for each file passed over.
std::optional<FoundSnapshot> find_snapshot(
    const std::string& path, const std::function<void(const std::string& bytes, const std::string& name)>& verify,
    const std::function<void(const std::string& sentence)>& warn);

// Finds out before the first epoch what write_snapshot() would say after it: a folder that is not there, or is not
// ours.
void check_writable(const std::string& path);

// What was at `path` becomes `path`.previous.
void write_snapshot(const std::string& path, const std::string& bytes);

// Puts both files aside, so that the next find_snapshot() finds none: PATH becomes PATH.old, PATH.previous goes. Says
// whether there was one.
bool retire_snapshots(const std::string& path);

// The bytes of a file that must be there; `what` says what it is for in the Error.
std::string read_whole_file(const std::string& path, const std::string& what);

}  // namespace ddprun
