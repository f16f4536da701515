// What is known of jobs here: their records, and what the places where they run say when they are asked.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/job_record.h"
#include "launcher/jobs/places/kubernetes.h"
#include "launcher/running/job_view.h"

namespace ddprun::launcher {

Place place_of(const nlohmann::json& submitted);  // here, where it names none
KubernetesJob kubernetes_job(const nlohmann::json& submitted);

// Of the record alone: nobody is asked.
JobFacts recorded_facts(const JobRecord& record);
// Its scheduler is asked, if it can be. Throws Error if it does not answer.
JobFacts facts_of(const JobRecord& record);
// Asks each place once about all its jobs. One that it does not answer about keeps what its record says. Returns a
// sentence for each place that did not answer.
std::vector<std::string> ask_places(std::vector<JobFacts>& jobs);

}  // namespace ddprun::launcher
