// Gives jobs to Slurm as `ddprun submit` does, for places_test.py:
//   slurm_places script RECORD DDPRUN NODES [WORD=VALUE ...]      prints the script; words are those of [slurm]
//   slurm_places submit SCRIPT | test SCRIPT | state ID | cancel ID GRACE_S
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "launcher/jobs/places/slurm.h"
#include "launcher/jobs/places/slurm_script.h"

using namespace ddprun::launcher;

namespace {

using Arguments = std::vector<std::string>;

std::string script(const Arguments& words) {
  JobDescription job;
  job.name = "placed";
  job.source_dir = words.at(1);
  job.nodes = std::stoi(words.at(3));
  for (std::size_t i = 4; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size());
    job.slurm.emplace_back(words[i].substr(0, equals), words[i].substr(std::min(equals + 1, words[i].size())));
  }
  return slurm_script(job, words.at(1), words.at(2));
}

std::string state(const std::string& id) {
  const PlaceState state = slurm_job_state(id);
  nlohmann::json out{
      {"phase", text_of(state.phase)}, {"detail", state.detail}, {"where", state.where}, {"requeues", state.requeues}};
  if (state.exit_code) out["exit_code"] = *state.exit_code;
  return out.dump() + "\n";
}

std::string carry_out(const Arguments& words) {
  const std::string& what = words.at(0);
  if (what == "script") return script(words);
  if (what == "submit") return submit_to_slurm(words.at(1)) + "\n";
  if (what == "test") return test_with_slurm(words.at(1)) + "\n";
  if (what == "state") return state(words.at(1));
  if (what != "cancel") throw std::invalid_argument("no such command: " + what);
  cancel_slurm_job(words.at(1), std::chrono::seconds(std::stoi(words.at(2))));
  return "";
}

}  // namespace

int main(int argc, char** argv) try {
  std::cout << carry_out({argv + 1, argv + argc});
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
