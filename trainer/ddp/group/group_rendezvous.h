// The rendezvous of a group's ranks: this process's rank, the store, the other ranks, and the address at which they
// reach this one.
//
// Throws Error with a sentence that names the place.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/process_group.h"
#include "trainer/ddp/group/init_method.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/group/roster.h"

namespace ddprun {

// This process's rank and the rendezvous, from the options and the environment.
struct Place {
  RankEnv env;
  InitMethod method;
  std::string name;                                                           // where the ranks meet
  std::string freshness_rule = "no group may have met in this store before";  // a further requirement
  int join_count = 1;  // how often this process joined there as this rank: each time uses its own keys
};
// Counts as one more join.
Place place_of(const InitOptions& options);

c10::intrusive_ptr<c10d::Store> open_store(const Place& place, const InitOptions& options);
Member member_of(const RankEnv& env, Backend backend);
// Announces this rank in the store and waits for the others.
Roster join_group(const Place& place, const c10::intrusive_ptr<c10d::Store>& store, const Member& self,
                  std::chrono::milliseconds timeout);
// Keep the result as long as the group: its destruction cleans up the rendezvous. May be null.
std::shared_ptr<void> make_cleanup(const Place& place, const c10::intrusive_ptr<c10d::Store>& store);
// This rank's address, for gloo.
std::string address_of(const Place& place, const Roster& roster);
// Throws Error if ranks of one machine cannot reach each other because its interface lo is down.
void check_loopback(int rank, int world_size);

// For sentences: "rank 1 of 2".
std::string rank_of_world(int rank, int world_size);
[[noreturn]] void refuse(const std::vector<std::string>& problems);

}  // namespace ddprun
