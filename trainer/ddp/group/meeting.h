// Where the ranks of a group meet: who this process is, the store there, who else has come, and at which address the
// others find it.
//
// What cannot be is an Error's sentence that names the place.
#pragma once
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/process_group.h"
#include "trainer/ddp/group/init_method.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/group/roster.h"

namespace ddprun {

// Who we are and where the others are, from the options and the environment.
struct Place {
  RankEnv env;
  InitMethod method;
  std::string words;                                                     // where the ranks meet
  std::string freshness = "no group may have met in this store before";  // what else is asked for there
  int times = 1;  // that this process has joined there as this rank: each time has keys of its own
};
// One more time.
Place place_of(const InitOptions& options);

c10::intrusive_ptr<c10d::Store> open_store(const Place& place, const InitOptions& options);
Member member_of(const RankEnv& env, Backend backend);
// Tells the store that we are here, and waits for the others.
Roster meet(const Place& place, const c10::intrusive_ptr<c10d::Store>& store, const Member& self,
            std::chrono::milliseconds timeout);
// To be kept as long as the group: what tidies up where it met. Null: nothing.
std::shared_ptr<void> tidying(const Place& place, const c10::intrusive_ptr<c10d::Store>& store);
// Ours, for gloo.
std::string address_of(const Place& place, const Roster& roster);
// Throws Error where ranks of one machine cannot reach each other: its interface lo is down.
void check_loopback(int rank, int world_size);

// For sentences: "rank 1 of 2"; what an exception of LibTorch's or gloo's says, without backtrace and place.
std::string of_world(int rank, int world_size);
std::string reason(const std::exception& error);
[[noreturn]] void refuse(const std::vector<std::string>& problems);

}  // namespace ddprun
