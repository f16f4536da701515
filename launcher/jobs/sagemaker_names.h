// What SageMaker's Estimator (v2) and ModelTrainer (v3) call the keys of a job's file. Keys with a dot are in a table
// of that name. Source: sagemaker.readthedocs.io, "Estimators" and "ModelTrainer". Pure.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

// "instance_count" -> "nodes"; a name that is not among them stays as it is.
std::string own_name(const std::string& name);
std::vector<std::string> sagemaker_names();

bool is_sagemaker_table(const std::string& name);  // "compute"

// About machines that SageMaker rents, and containers: ddprun has neither.
bool has_no_meaning(const std::string& name);

}  // namespace ddprun::launcher
