// Transcripts of a supervisor: events in, actions out, as a newcomer can read them.
//
// A file has blocks: lines of events (text form of agent/events.h, "+25s" advances the clock), "----", the actions that
// follow. A first line "policy stop_grace=5 peer_exit_timeout=30" sets what is not the default. DDPRUN_UPDATE=1 in the
// environment rewrites the actions; review the diff.
#pragma once
#include <filesystem>
#include <string>

#include "agent/events.h"
#include "rendezvous/base/time.h"

namespace ddprun::test {

// "worker-exited round=1 local_rank=2 signal=SIGSEGV"; throws std::invalid_argument on what it does not know.
agent::Event parse_event(const std::string& line);

// The only node's seat in a round with so many workers.
rendezvous::Seat seat_of(int workers, int round = 1);

// What the transcript should be: the same events with the supervisor's actual actions.
std::string replay(const std::string& transcript);

// `actual` against the file; with DDPRUN_UPDATE=1 the file is rewritten instead and counts as equal.
bool matches_golden(const std::filesystem::path& file, const std::string& actual);

}  // namespace ddprun::test
