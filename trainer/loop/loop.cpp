#include "trainer/loop/loop.h"

#include <torch/torch.h>

#include <functional>

#include "ddprun/collectives.h"
#include "ddprun/weights.h"
#include "rendezvous/base/print_line.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/records.h"
#include "trainer/loop/step.h"
#include "trainer/loop/transfer.h"
#include "trainer/loop/writing.h"
#include "trainer/machine/stop_signal.h"

namespace ddprun::train {
namespace {

using Seconds = std::chrono::duration<double>;

void say(const std::string& sentence) { print_line(stderr, "train: " + sentence); }

constexpr std::chrono::seconds kLossPeriod{1};  // of reports to ddprun: on a GPU each waits for the step

// Why training stops; snapshot: it does not, but saves.
enum class Stop { none, snapshot, save, leave };
bool ends(Stop stop) { return stop == Stop::save || stop == Stop::leave; }

// The state of one rank's loop besides the run itself.
struct Loop {
  Run& run;
  Records records;
  std::optional<StopSignal> signal = {};
  TimePoint began = Clock::now();
  TimePoint loss_told = began;
  Position start = {};
  EpochReport last = {};
  Evaluation evaluation = {};
  bool ended_early = false;
};

// Until the end of the last epoch. `steps`: of this one.
std::int64_t steps_left(const Run& run, std::int64_t steps) {
  const std::int64_t epochs_after = run.options.training.epochs - run.at.epochs_run - 1;
  return steps - run.epoch.steps + epochs_after * steps_per_epoch(run);
}

struct EpochClock {
  TimePoint began = Clock::now();
  std::int64_t steps = 0, samples = 0;  // since then, over all ranks
};

void show_step(Run& run, const StepDone& done, std::int64_t steps, const EpochClock& clock) {
  const TimePoint now = Clock::now();
  if (!run.progress.wants(run.epoch.steps, steps, now)) return;
  const double seconds = std::max(Seconds(now - clock.began).count(), 1e-9);
  run.progress.step(
      {.epoch = run.at.epochs_run + 1,
       .step = run.epoch.steps,
       .steps = steps,
       .loss = done.loss.item<double>(),
       .samples_per_second = static_cast<double>(clock.samples) / seconds,
       .seconds_left = seconds / static_cast<double>(clock.steps) * static_cast<double>(steps_left(run, steps))},
      now);
}

void count_step(Run& run, const StepDone& done) {
  const std::int64_t samples = done.samples * run.group.world_size();
  run.at.step += 1;
  run.at.samples_seen += samples;
  run.epoch.steps += 1;
  run.epoch.samples += samples;
  if (!done.taken)
    run.epoch.skipped += samples;
  else if (done.loss_sum.defined())
    run.epoch.loss_sum += done.loss_sum;  // on its device, so it does not wait for the GPU
}

Stop stop_after_step(Loop& loop) {
  const auto step = static_cast<std::uint64_t>(loop.run.at.step);
  const Asked asked = loop.run.worker.step_done(step);
  if (asked == Asked::to_leave) return Stop::leave;
  if (asked == Asked::to_save || (loop.signal && loop.signal->reached(step))) return Stop::save;
  return asked == Asked::to_snapshot ? Stop::snapshot : Stop::none;
}

// At a further point after the last step, the same on all ranks.
Stop stop_between_steps(Loop& loop) {
  const Asked asked = loop.run.worker.asked_between_steps();
  if (asked == Asked::to_leave) return Stop::leave;
  if (asked == Asked::to_snapshot) save_run(loop.run);
  return asked == Asked::to_save || (loop.signal && loop.signal->reached_between_steps()) ? Stop::save : Stop::none;
}

void tell_loss(Loop& loop, const StepDone& done) {
  const TimePoint now = Clock::now();
  if (!loop.run.worker.has_launcher() || now - loop.loss_told < kLossPeriod) return;
  loop.loss_told = now;
  loop.run.worker.loss(static_cast<std::uint64_t>(loop.run.at.step), done.loss.item<double>());
}

// Trains the rest of the epoch, from the sampler's position, unless asked to stop.
Stop train_epoch(Loop& loop) {
  Run& run = loop.run;
  run.worker.phase(Phase::training);
  train_mode(*run.model);
  run.sampler->set_epoch(run.at.epochs_run);
  EpochBatches batches(run);
  const std::int64_t passes = run.options.training.accumulate;
  const std::int64_t steps = run.epoch.steps + (batches.left() + passes - 1) / passes;
  // Those that were done by another number of ranks were more, or fewer, for the same samples.
  run.worker.total_steps(static_cast<std::uint64_t>(run.at.step + steps_left(run, steps)));
  EpochClock clock;
  while (batches.left() > 0) {
    const StepDone done = train_step(run, batches);
    count_step(run, done);
    clock.steps += 1;
    clock.samples += done.samples * run.group.world_size();
    show_step(run, done, steps, clock);
    loop.records.step(done.loss);
    tell_loss(loop, done);
    const Stop stop = stop_after_step(loop);
    if (ends(stop)) return stop;
    const std::int64_t every = run.options.snapshot.every_steps;
    if (stop == Stop::snapshot || (batches.left() > 0 && every > 0 && run.at.step % every == 0))
      save_run(run);
    else
      keep_run(run);
  }
  // What follows may keep the same step again, and ranks have to stay within one.
  finish_keeping(run);
  return Stop::none;
}

// The result of an evaluation, the same on all ranks.
struct EvaluationResult {
  std::optional<double> metric = {};  // of --best
  bool best = false;                  // so far, by it
  bool stop = false;
};

EvaluationResult update_best(Loop& loop) {
  Run& run = loop.run;
  const Options& o = run.options;
  const auto metric = [&](const std::string& by) {
    return by == "accuracy" ? loop.evaluation.accuracy() : loop.evaluation.loss;
  };
  EvaluationResult result{.stop = run.early_stopping.update(run.at.epochs_run, metric(o.evaluation.by)).stop};
  if (o.snapshot.best == "none") return result;
  result.metric = metric(o.snapshot.best);
  result.best = run.best.update(run.at.epochs_run, *result.metric).better;
  return result;
}

// The epoch's steps are done, and its evaluation, too. Until then a snapshot has it unfinished, so that a resume
// evaluates it again.
void count_epoch(Run& run) {
  run.at.epochs_run += 1;
  run.sampler->set_epoch(run.at.epochs_run);
  if (run.options.schedule.unit == "epoch") step_schedule(run);
}

bool is_due(const Run& run, std::int64_t epoch, std::int64_t every) {
  return epoch % every == 0 || epoch >= run.options.training.epochs;
}

// `samples`: of all ranks, in `seconds`.
EpochReport report_of(const Loop& loop, bool evaluated, std::int64_t samples, double seconds) {
  const Run& run = loop.run;
  EpochReport report{.epoch = run.at.epochs_run,
                     .epochs = run.options.training.epochs,
                     .loss = loop.evaluation.train_loss,
                     .evaluated = evaluated,
                     .correct = loop.evaluation.correct,
                     .tested = run.data.task == Task::regress ? 0 : loop.evaluation.observed,
                     .samples_per_second = static_cast<double>(samples) / seconds};
  if (run.data.task != Task::classify) report.test_loss = loop.evaluation.loss;
  return report;
}

Stop evaluate_unless_stopped(Loop& loop, std::int64_t epoch, bool predicts) {
  Stop stop = Stop::none;
  const auto evaluation =
      evaluate(loop.run, epoch, predicts, [&] { return (stop = stop_between_steps(loop)) != Stop::none; });
  if (evaluation) loop.evaluation = *evaluation;
  if (evaluation && loop.run.wanted.verbose)
    loop.run.progress.line(line_of(evaluation->parts, loop.run.data.task != Task::regress));
  return stop;
}

// Of the epoch whose steps are done: evaluates it if its turn has come.
Stop evaluate_epoch(Loop& loop, bool evaluates) {
  Run& run = loop.run;
  const std::int64_t epoch = run.at.epochs_run + 1;
  if (!evaluates) {
    const at::Tensor sum = run.epoch.loss_sum.clone();
    all_reduce(sum, ReduceOp::sum, run.group);
    loop.evaluation.train_loss = run.epoch.loss_of(sum.item<double>());
    return Stop::none;
  }
  const bool predicts = epoch >= run.options.training.epochs || run.options.evaluation.patience > 0;
  return evaluate_unless_stopped(loop, epoch, run.wanted.predictions && predicts);
}

// `samples`: of all ranks since `began`.
Stop end_epoch(Loop& loop, std::int64_t samples, TimePoint began) {
  Run& run = loop.run;
  const Options& o = run.options;
  const std::int64_t epoch = run.at.epochs_run + 1;
  const bool last = epoch >= o.training.epochs, evaluates = is_due(run, epoch, o.evaluation.every);
  if (const Stop stop = evaluate_epoch(loop, evaluates); stop != Stop::none) return stop;
  count_epoch(run);
  EvaluationResult result;
  if (evaluates) result = update_best(loop);
  check_loss(run, loop.evaluation.train_loss);
  const double seconds = Seconds(Clock::now() - began).count();
  run.worker.throughput(static_cast<double>(samples) / run.group.world_size() / seconds);
  loop.last = report_of(loop, evaluates, samples, seconds);
  run.progress.line(line_of(loop.last));
  show_text(run);
  loop.records.epoch(loop.last, loop.evaluation);
  begin_epoch(run);
  loop.ended_early = result.stop && !last;
  const bool by_steps = o.snapshot.every_steps > 0 && run.at.step % o.snapshot.every_steps == 0;
  if (is_due(run, epoch, o.snapshot.every_epochs) || by_steps || result.best || loop.ended_early)
    save_run(run, result.metric);
  else
    keep_run(run);
  return Stop::none;
}

void write_result(const Loop& loop, const char* ended, const std::string& unsaved = {}) {
  loop.records.result({.ended = ended,
                       .unsaved = unsaved,
                       .last = loop.last,
                       .evaluation = loop.evaluation,
                       .samples = loop.run.at.samples_seen - loop.start.samples_seen,
                       .seconds = Seconds(Clock::now() - loop.began).count()});
}

// If it leaves without saving, no collective may follow: its peers may be dead.
Ending leave(Loop& loop, Stop stop) {
  Run& run = loop.run;
  if (stop == Stop::leave) return Ending::left;
  run.worker.phase(Phase::saving);
  save_run(run);
  run.snapshots->finish();
  try {
    write_result(loop, "saved");
  } catch (const std::exception& error) {  // the snapshot is saved already
    say(error.what());
  }
  run.progress.line("saved at step " + std::to_string(run.at.step) + "; the next start resumes from there");
  return run.worker.has_launcher() ? Ending::saved : Ending::requeue;
}

// If the last snapshot could not be written, the best one may also be missing or out of date.
void load_best(Run& run, bool unsaved) {
  const BestState& best = run.best.state();
  if (run.options.snapshot.best == "none" || best.best_epoch == 0) return;
  const std::string path = best_snapshot_path(run.snapshot_path);
  if (!unsaved || run.snapshots->best_metric() == best.best)
    load_weights(*run.model, path);
  else if (best.best_epoch != run.at.epochs_run)
    say("the best weights, of epoch " + std::to_string(best.best_epoch) + ", are not in " + path +
        ": those of the last epoch are published instead.");
}

// Writes the weights only; those of the best snapshot if one is kept.
void publish_weights(Run& run, bool unsaved = false) {
  if (!run.wanted.publish) return;
  all_or_none(run.group, [&] {
    if (run.group.rank() != 0) return;
    load_best(run, unsaved);
    publish(*run.model, run.options.snapshot.publish);
  });
}

bool is_over(const Run& run) {
  return run.at.epochs_run >= run.options.training.epochs || run.early_stopping.has_stopped();
}

// For a run whose snapshot already has all epochs.
void report_nothing_to_do(Run& run) {
  const std::string path = run.snapshot_path;
  const std::int64_t all = run.options.training.epochs;
  if (run.early_stopping.has_stopped() && run.at.epochs_run < all)
    run.progress.line("nothing to do: " + path + " ended early, after " + std::to_string(run.at.epochs_run) +
                      " epochs. Pass a longer --patience to go on, or start over with --fresh.");
  else
    run.progress.line("nothing to do: " + path + " has " +
                      (all == 1 ? "the one epoch" : "all of the " + std::to_string(all) + " epochs") +
                      ". Ask for more, or start over with --fresh.");
}

// Still writes what a script requested: the numbers of the model as it is.
Ending finish_without_training(Run& run) {
  report_nothing_to_do(run);
  if (run.wanted.result || run.wanted.predictions) {
    Loop loop{.run = run, .records = Records(run), .start = run.at, .ended_early = run.early_stopping.has_stopped()};
    const Stop stop = evaluate_unless_stopped(loop, run.at.epochs_run, run.wanted.predictions);
    if (stop != Stop::none) return stop == Stop::leave ? Ending::left : Ending::saved;  // the snapshot has everything
    loop.last = report_of(loop, /*evaluated=*/true, 0, 1);
    all_or_none(run.group, [&] { write_result(loop, loop.ended_early ? "early" : "done"); });
  }
  publish_weights(run);
  return Ending::done;
}

// Writes the files requested for the end. Without a snapshot to return to, the failure of one does not prevent the
// others.
void write_results(Loop& loop, const std::string& unsaved) {
  Run& run = loop.run;
  const auto attempt = [&](const std::function<void()>& part) {
    try {
      part();
    } catch (const AgreedError& error) {
      if (unsaved.empty()) throw;
      if (run.group.rank() == 0) say(error.what());
    }
  };
  attempt([&] { publish_weights(run, !unsaved.empty()); });
  attempt([&] { all_or_none(run.group, [&] { write_result(loop, loop.ended_early ? "early" : "done", unsaved); }); });
}

Ending finish(Loop& loop) {
  Run& run = loop.run;
  run.worker.phase(Phase::finishing);
  const std::string unsaved = run.snapshots->try_finish();  // no rank reports success before the last one is on disk
  const Seconds time = Clock::now() - loop.began;
  write_results(loop, unsaved);
  if (loop.ended_early)
    run.progress.line("ends early: the last " + std::to_string(run.options.evaluation.patience) +
                      " evaluations were no better than epoch " +
                      std::to_string(run.early_stopping.state().best_epoch));
  run.progress.line(line_of(RunReport{.epochs = run.at.epochs_run,
                                      .correct = loop.last.correct,
                                      .tested = loop.last.tested,
                                      .test_loss = loop.last.test_loss,
                                      .samples = run.at.samples_seen - loop.start.samples_seen,
                                      .time = time}));
  if (unsaved.empty()) return Ending::done;
  if (run.group.rank() == 0)
    say(unsaved + " The training is complete but for this last snapshot: another start would repeat its last steps.");
  return Ending::unsaved;
}

}  // namespace

Ending train(const CommandLine& config, const RankEnv& env, std::optional<at::Device> device, Progress& progress,
             Worker& worker, Kept& kept) {
  Run run = begin_run(config, env, device, progress, worker, kept);
  if (is_over(run)) return finish_without_training(run);
  Loop loop{.run = run, .records = Records(run), .start = run.at};
  if (!worker.has_launcher() && !env.under_agent) loop.signal.emplace(run.group);
  while (!is_over(run)) {
    const TimePoint epoch_began = Clock::now();
    const std::int64_t samples_before = run.at.samples_seen;
    if (const Stop stop = train_epoch(loop); stop != Stop::none) return leave(loop, stop);
    if (const Stop stop = end_epoch(loop, run.at.samples_seen - samples_before, epoch_began); stop != Stop::none)
      return leave(loop, stop);
  }
  return finish(loop);
}

}  // namespace ddprun::train
