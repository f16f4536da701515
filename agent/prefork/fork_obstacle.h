// Whether workers may be forked from a process: not if it has what a fork loses or must not share.
#pragma once
#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace ddprun::agent {

// As the end of "it ...". Empty: none. Of a process that waits: else it may change meanwhile.
// - a second thread: it does not exist in the fork, and OpenMP's pool then hangs for ever
// - an open GPU: CUDA does not survive a fork
// - a socket on which it listens: several processes would accept from it
std::string fork_obstacle(pid_t pid);
// Where the entries of /proc/<pid>/fd point to.
std::vector<std::string> open_files(pid_t pid);

// The inodes of sockets in state LISTEN. `text`: of /proc/<pid>/net/tcp or tcp6; of /proc/<pid>/net/unix.
std::set<std::string> listening_tcp(const std::string& text);
std::set<std::string> listening_unix(const std::string& text);
// `links`: as open_files() gives them.
std::string obstacle_among(const std::vector<std::string>& links, const std::set<std::string>& listening);

}  // namespace ddprun::agent
