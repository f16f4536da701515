// Reads what `scontrol show job` and `sacct` print about one job. Pure: text in, values out.
#pragma once
#include <optional>
#include <string>

#include "launcher/jobs/places/place_state.h"

namespace ddprun::launcher {

// Of `scontrol show job ID`. Empty: the text has no job in it.
std::optional<PlaceState> state_from_scontrol(const std::string& text);

// The fields to ask sacct for, with --parsable2 --noheader --duplicates --allocations.
inline constexpr const char* kSacctFields = "State,ExitCode,NodeList";
// A line for each start, the last one last. Empty: no line.
std::optional<PlaceState> state_from_sacct(const std::string& text);

// "KillWait = 30 sec" of `scontrol show config`, in seconds: from SIGTERM to SIGKILL of a job that is cancelled.
std::optional<int> kill_wait_from_config(const std::string& text);

}  // namespace ddprun::launcher
