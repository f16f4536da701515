#include "launcher/running/job_facts.h"

#include <filesystem>

#include "launcher/jobs/places/slurm.h"
#include "launcher/running/live_job.h"

namespace ddprun::launcher {
namespace {

std::string slurm_id_of(const JobFacts& facts) { return facts.submitted.value("place_id", ""); }

std::vector<JobFacts*> to_ask(std::vector<JobFacts>& jobs, Place place) {
  std::vector<JobFacts*> out;
  for (JobFacts& job : jobs)
    if (job.place == place && can_ask(job)) out.push_back(&job);
  return out;
}

// Without an answer a job's state is what its record says, or unknown.
template <class NameOf>
void take(const PlaceAnswers& answers, const std::vector<JobFacts*>& jobs, const NameOf& name_of_job,
          std::vector<std::string>& problems) {
  for (JobFacts* job : jobs) {
    const auto found = answers.states.find(name_of_job(*job));
    job->scheduler = found == answers.states.end() ? PlaceState{} : found->second;
  }
  if (!answers.problem.empty()) problems.push_back(answers.problem);
}

}  // namespace

Place place_of(const nlohmann::json& submitted) {
  return place_named(submitted.is_object() ? submitted.value("place", "here") : "here").value_or(Place::here);
}

KubernetesJob kubernetes_job(const nlohmann::json& submitted) {
  const nlohmann::json job = submitted.value("kubernetes", nlohmann::json::object());
  return {job.value("name", ""), job.value("namespace", ""), job.value("jobset", false)};
}

JobFacts recorded_facts(const JobRecord& record) {
  JobFacts facts;
  facts.id = record.id();
  facts.problem = record.problem();
  facts.submitted = record.submitted();
  facts.status = record.status();
  facts.place = place_of(facts.submitted);
  facts.cancelled = std::filesystem::exists(record.path("cancelled"));
  if (facts.place == Place::here || facts.place == Place::ssh) facts.runner_is_gone = runner_is_gone(facts.status);
  return facts;
}

JobFacts facts_of(const JobRecord& record) {
  JobFacts facts = recorded_facts(record);
  if (!can_ask(facts)) return facts;
  facts.scheduler = facts.place == Place::slurm ? slurm_job_state(slurm_id_of(facts))
                                                : kubernetes_job_state(kubernetes_job(facts.submitted));
  return facts;
}

std::vector<std::string> ask_places(std::vector<JobFacts>& jobs) {
  std::vector<std::string> problems, ids;
  std::vector<KubernetesJob> pods;
  const std::vector<JobFacts*> slurm = to_ask(jobs, Place::slurm), kubernetes = to_ask(jobs, Place::kubernetes);
  for (const JobFacts* job : slurm) ids.push_back(slurm_id_of(*job));
  for (const JobFacts* job : kubernetes) pods.push_back(kubernetes_job(job->submitted));
  take(slurm_job_states(ids), slurm, slurm_id_of, problems);
  take(
      kubernetes_job_states(pods), kubernetes, [](const JobFacts& job) { return kubernetes_job(job.submitted).name; },
      problems);
  return problems;
}

}  // namespace ddprun::launcher
