#include "launcher/jobs/places/place_words.h"

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds kUsualGrace{25};  // the default of --stop-grace

}  // namespace

std::optional<std::string> option_value(const JobDescription& job, const std::string& name) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < job.options.size(); ++i) {
    const std::string& word = job.options[i];
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || with_dashes(word.substr(2, equals - 2)) != name) continue;
    if (equals != word.npos)
      value = word.substr(equals + 1);
    else if (i + 1 < job.options.size())
      value = job.options[i + 1];
  }
  return value;
}

std::chrono::seconds stop_grace_of(const JobDescription& job) {
  const auto text = option_value(job, "stop-grace");
  if (!text) return kUsualGrace;
  const auto read = settings::read_duration(*text);
  const auto* grace = std::get_if<Duration>(&read);
  return grace ? in_seconds(*grace) : kUsualGrace;
}

bool needs_token(const JobDescription& job) {
  return !option_value(job, "token-file") && !option_value(job, "tls-cert");
}

std::chrono::seconds in_seconds(Duration duration) { return std::chrono::ceil<std::chrono::seconds>(duration); }

}  // namespace ddprun::launcher
