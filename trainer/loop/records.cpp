#include "trainer/loop/records.h"

#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ddprun/collectives.h"
#include "rendezvous/base/print_line.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/loop/result_file.h"

namespace ddprun::train {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

MetricsOptions metrics_options(const Run& run) {
  MetricsOptions options{.jsonl = run.options.logging.metrics, .tensorboard = run.options.logging.tensorboard};
  if (run.at.step > 0) options.resumed_step = run.at.step;
  options.say = [](const std::string& sentence) { print_line(stderr, "train: " + sentence); };
  return options;
}

}  // namespace

Records::Records(Run& run) : run_(run) {
  all_or_none(run.group, [&] {
    if (run.group.rank() != 0) return;
    if (run.wanted.metrics) metrics_ = std::make_unique<MetricsLog>(metrics_options(run), wall_time());
  });
}

void Records::step(const at::Tensor& loss) {
  const std::int64_t every = run_.wanted.every;
  if (!run_.wanted.metrics || every == 0 || run_.epoch.steps % every != 0) return;
  const at::Tensor mean = loss.to(torch::kDouble) / run_.group.world_size();
  reduce(mean, 0, ReduceOp::sum, run_.group);
  if (!metrics_) return;
  metrics_->write({.step = run_.at.step,
                   .epoch = run_.at.epochs_run + 1,
                   .values = {{"loss", mean.item<double>()}, {"lr", run_.schedule->lr()}},
                   .wall_time = wall_time()});
}

void Records::epoch(const EpochReport& report, const Evaluation& evaluation) {
  if (!metrics_) return;
  MetricsRow row{.step = run_.at.step, .epoch = run_.at.epochs_run, .wall_time = wall_time()};
  row.values = {{"epoch_loss", report.loss}, {"samples_per_second", report.samples_per_second}};
  if (report.evaluated) {
    row.values.emplace_back("test_loss", evaluation.loss);
    if (report.tested > 0) row.values.emplace_back("accuracy", evaluation.accuracy());
  }
  metrics_->write(row);
}

void Records::result(const Result& r) const {
  const Options& o = run_.options;
  if (run_.group.rank() != 0 || o.logging.result.empty()) return;
  nlohmann::ordered_json result{{"ended", r.ended},
                                {"model", o.model.name},
                                {"data", o.data.name},
                                {"world_size", run_.group.world_size()},
                                {"epochs", run_.at.epochs_run},
                                {"steps", run_.at.step}};
  if (r.last.epoch > 0 && std::isfinite(r.last.loss)) result["loss"] = r.last.loss;
  if (r.last.evaluated) result["test_loss"] = r.evaluation.loss;
  if (r.last.evaluated && r.last.tested > 0) {
    result["accuracy"] = r.evaluation.accuracy();
    result["correct"] = r.evaluation.correct;
    result["tested"] = r.evaluation.observed;
  }
  if (const BestState& best = run_.early_stopping.state(); best.best_epoch > 0)
    result["best"] = {{"by", o.evaluation.by}, {"value", best.best}, {"epoch", best.best_epoch}};
  result["samples"] = r.samples;
  result["seconds"] = r.seconds;
  if (r.samples > 0) result["samples_per_second"] = static_cast<double>(r.samples) / std::max(r.seconds, 1e-9);
  result["snapshot"] = run_.snapshot_path;
  if (!r.unsaved.empty()) result["snapshot_error"] = r.unsaved;
  write_result_file(o.logging.result, result);
}

}  // namespace ddprun::train
