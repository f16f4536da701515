// Transcripts of a supervisor: events in, actions out, in a readable form.
//
// A file has blocks: lines of events (text form of agent/round/events.h, "+25s" advances the clock), "----", the
// actions that follow. A first line "policy stop_grace=5 peer_exit_timeout=30" sets values other than the defaults.
// DDPRUN_UPDATE=1 in the environment rewrites the actions; review the diff.
#pragma once
#include <filesystem>
#include <string>

#include "agent/round/events.h"
#include "rendezvous/base/time.h"

namespace ddprun::test {

// "worker-exited round=1 local_rank=2 signal=SIGSEGV"; throws std::invalid_argument for an unknown event.
agent::Event parse_event(const std::string& line);

// The only node's seat in a round with that many workers.
rendezvous::Seat seat_of(int workers, int round = 1);

// The same events with the supervisor's actual actions.
std::string replay(const std::string& transcript);

// Compares `actual` with the file; with DDPRUN_UPDATE=1 the file is rewritten instead and counts as equal.
bool matches_golden(const std::filesystem::path& file, const std::string& actual);

}  // namespace ddprun::test
