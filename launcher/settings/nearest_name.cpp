#include "launcher/settings/nearest_name.h"

#include <algorithm>

#include "rendezvous/base/spelling.h"

namespace ddprun::settings {

std::string nearest_name(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t kMinPrefix = 3;  // fewer letters match too many names
  const std::string upper = upper_case(typed);
  std::vector<std::string> uppers;
  for (const std::string& name : names) uppers.push_back(upper_case(name));
  const auto begins = [&](const std::string& name) { return name.starts_with(upper.substr(0, kMinPrefix)); };
  const std::string near = nearest(upper, uppers);
  auto found = near.empty() ? uppers.end() : std::find(uppers.begin(), uppers.end(), near);
  if (near.empty() && typed.size() >= kMinPrefix) found = std::find_if(uppers.begin(), uppers.end(), begins);
  return found == uppers.end() ? "" : names[static_cast<std::size_t>(found - uppers.begin())];
}

}  // namespace ddprun::settings
