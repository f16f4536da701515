// What the job's page is told, as server-sent events (WHATWG HTML, 9.2). Pure.
#pragma once
#include <string>

#include "agent/status/job_condition.h"
#include "agent/status/job_history.h"

namespace ddprun::agent {

constexpr std::size_t kPageRanksMax = 64;

// The status without most ranks of a large job, with `ranks_total` and `slowest`: for each of load, compute and wait
// the rank that has spent most on it in this round. `strip` has a character for each rank of a large job, by node.
nlohmann::json page_status(nlohmann::json status);

// Equal for two statuses between which only ages differ.
std::string page_key(nlohmann::json status);

// The first one, with the whole history; and the later ones. `rounds`: with all rounds and marks.
std::string whole_event(const nlohmann::json& status, const JobHistory& history, UnixTime now);
std::string change_event(const nlohmann::json& status, const JobHistory& history, UnixTime now, bool rounds);
// The last one.
std::string ended_event(const std::string& text, const JobCondition& condition);
inline const std::string kAliveComment = ": alive\n\n";

// "event: NAME" and the text, each of its lines as "data: ", ended by an empty line.
std::string server_sent(const std::string& name, const std::string& text);

}  // namespace ddprun::agent
