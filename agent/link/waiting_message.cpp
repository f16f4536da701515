#include "agent/link/waiting_message.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

constexpr std::size_t kNamedMax = 5;
constexpr int kReminderGrowth = 3;

std::string amount(int here, int wanted, const std::string& what) {
  if (here >= wanted) return std::to_string(here) + " " + what + (here == 1 ? "" : "s");
  return std::to_string(here) + " of " + std::to_string(wanted) + " " + what + "s";
}

std::string awaited_in_words(const rendezvous::Attendance& attendance) {
  std::string out;
  for (std::size_t i = 0; i < attendance.awaited.size() && i < kNamedMax; ++i)
    out += (i ? ", " : "") + attendance.awaited[i];
  const std::size_t named = std::min(attendance.awaited.size(), kNamedMax);
  const std::size_t unnamed = attendance.awaited.size() - named + static_cast<std::size_t>(attendance.awaited_more);
  return unnamed > 0 ? out + " and " + std::to_string(unnamed) + " more" : out;
}

}  // namespace

std::string waiting_message(const std::optional<rendezvous::Attendance>& attendance, int own_workers) {
  if (!attendance) return "the job has its maximum number of nodes; this one is a spare";
  const auto& [nodes, wanted, workers, awaited, awaited_more] = *attendance;
  const bool alike = workers == nodes * own_workers;
  std::string out =
      amount(nodes, wanted, "node") + ", " + amount(workers, alike ? wanted * own_workers : workers, "worker");
  return awaited.empty() ? out : out + ", waiting for " + awaited_in_words(*attendance);
}

Duration next_reminder(Duration so_far) {
  Duration next = kMessageDelay;
  while (next <= so_far) next *= kReminderGrowth;
  return next;
}

}  // namespace ddprun::agent
