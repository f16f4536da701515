// Whether a process waits for another machine to accept its TCP connection. Edge: reads /proc.
//
// ssh gives each address of a name its own time limit, and says nothing while it tries them.
#pragma once
#include <sys/types.h>

#include <set>
#include <string>

namespace ddprun::launcher {

bool is_connecting(pid_t process);

// Of a table such as /proc/net/tcp: the inodes of sockets whose first packet has not been answered. Pure.
std::set<std::string> unanswered_sockets(const std::string& table);

}  // namespace ddprun::launcher
