#include "trainer/loop/snapshot_extra.h"

#include <torch/torch.h>

#include <numeric>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

BestState best_state_in(const nlohmann::json& saved) {
  return {.best = saved["best"], .best_epoch = saved["best_epoch"], .worse_in_a_row = saved["worse_in_a_row"]};
}

nlohmann::json json_of(const BestTracker& tracker) {
  const BestState& state = tracker.state();
  return {{"best", state.best}, {"best_epoch", state.best_epoch}, {"worse_in_a_row", state.worse_in_a_row}};
}

// The characters that a text model knows, in the order of their ids.
std::string alphabet_of(const Dataset& data) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(data.vocabulary.size()));
  std::iota(ids.begin(), ids.end(), 0);
  return data.vocabulary.text_of(ids);
}

void check_alphabet(const Run& run, const nlohmann::json& extra) {
  if (has_same_alphabet(run, extra)) return;
  throw UsageError(
      "cannot go on with this text", "the model was trained on one with other characters",
      "Name the former text with --data, another file with --snapshot OTHER.pt, or start over with --fresh.");
}

}  // namespace

std::string saved_setting(const nlohmann::json& extra, const std::string& key) {
  if (!extra.is_object() || !extra.contains("config") || !extra["config"].is_object()) return {};
  const auto found = extra["config"].find(key);
  return found != extra["config"].end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool has_same_alphabet(const Run& run, const nlohmann::json& extra) {
  return !extra.is_object() || !extra.contains("alphabet") || extra["alphabet"] == alphabet_of(run.data);
}

nlohmann::json config_of(const Run& run) {
  nlohmann::json all = nlohmann::json::object();
  for (const settings::Option* setting : all_settings()) all[setting->key] = text_of(*setting, run.options);
  return all;
}

nlohmann::json common_extra_of(const Run& run) {
  nlohmann::json extra{{"config", run.settings}};
  if (run.early_stopping.state().best_epoch > 0) extra["judge"] = json_of(run.early_stopping);
  if (run.options.snapshot.best != "none") extra["best"] = json_of(run.best);
  if (run.data.task == Task::predict_next) extra["alphabet"] = alphabet_of(run.data);
  if (run.epoch.steps == 0) return extra;
  extra["epoch_steps"] = run.epoch.steps;
  extra["epoch_samples"] = run.epoch.samples;
  extra["epoch_skipped"] = run.epoch.skipped;
  return extra;
}

std::vector<std::pair<std::string, at::Tensor>> own_numbers_of(const Run& run) {
  return {{"loss_sum", run.epoch.loss_sum}};
}

nlohmann::json extra_of(const Run& run) {
  nlohmann::json extra = common_extra_of(run);
  if (run.epoch.steps == 0) return extra;
  const at::Tensor loss_sum = run.epoch.loss_sum.clone();
  all_reduce(loss_sum, ReduceOp::sum, run.group);
  extra["loss_sum"] = loss_sum.item<double>();
  check_loss(run, extra["loss_sum"]);
  return extra;
}

namespace {

// Of each rank that there was: what a rank had stays with it, and rank 0 takes that of ranks that are no more.
double own_loss(const Run& run, const std::vector<nlohmann::json>& own) {
  double sum = 0;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const bool is_ours = static_cast<int>(rank) == run.group.rank(),
               is_left = static_cast<int>(rank) >= run.group.world_size() && run.group.rank() == 0;
    if ((is_ours || is_left) && own[rank].is_object()) sum += own[rank].value("loss_sum", 0.0);
  }
  return sum;
}

}  // namespace

void restore_extra(Run& run, const nlohmann::json& extra, const std::vector<nlohmann::json>& own) {
  if (!extra.is_object()) return;
  if (extra.contains("epoch_steps")) {
    run.epoch.steps = extra["epoch_steps"];
    run.epoch.samples = extra["epoch_samples"];
    run.epoch.skipped = extra.value("epoch_skipped", 0);
    if (!extra.contains("loss_sum"))
      run.epoch.loss_sum += own_loss(run, own);
    else if (run.group.rank() == 0)
      run.epoch.loss_sum += extra["loss_sum"].get<double>();
  }
  const auto before = [&](const char* key) {
    return extra.contains("config") ? extra["config"].value(key, std::string()) : std::string();
  };
  if (extra.contains("epoch_steps") && (before("data.name") == "shards") != (run.options.data.name == "shards"))
    throw UsageError("cannot go on within an epoch",
                     "its order is that of " + before("data.name") + " and this run's that of " + run.options.data.name,
                     "Go on with the former data, or start over with --fresh.");
  // With another measure the best one starts afresh: accuracy and loss are not comparable.
  if (extra.contains("judge") && before("evaluation.by") == run.options.evaluation.by)
    run.early_stopping.resume(best_state_in(extra["judge"]));
  if (extra.contains("best")) {
    const std::string by = before("snapshot.best"), now = run.options.snapshot.best;
    if (now != "none" && by != now)
      throw UsageError("cannot keep the best snapshot by " + now, "this run keeps it by " + by,
                       "Go on with --best " + by + ", or start over with --fresh.");
    run.best.resume(best_state_in(extra["best"]));
  }
  check_alphabet(run, extra);
}

}  // namespace ddprun::train
