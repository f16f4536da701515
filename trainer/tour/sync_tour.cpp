#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "ddprun/collectives.h"
#include "ddprun/distributed_data_parallel.h"
#include "trainer/tour/clock.h"
#include "trainer/tour/timeline.h"
#include "trainer/tour/tour_context.h"
#include "trainer/tour/tour_net.h"

namespace ddprun::train {
namespace {

constexpr double kWorkMs = 40, kForwardMs = 15;  // roughly, of the rank with the least work
constexpr double kWorkRatio = 4;                 // the last rank's work relative to the first one's
constexpr int kSyncSteps = 2;
constexpr int kRoundTrips = 16;
constexpr std::int64_t kInputs = 256, kHiddenUnits = 512, kOutputs = 10;
// The net that shows how weights drift apart.
constexpr std::int64_t kDriftInputs = 8, kDriftUnits = 16, kDriftRows = 32;
constexpr int kDriftSteps = 4;
constexpr double kDriftRate = 0.05;

double now_ms() {
  const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

class Sync {
 public:
  explicit Sync(TourContext& context)
      : context_(context),
        work_factor_(context.world() == 1 ? 1 : 1 + (kWorkRatio - 1) * context.rank() / (context.world() - 1)),
        matrix_(torch::rand({side(), side()}, torch::device(context.device))) {}

  void show() {
    agree_on_work();
    const ClockOffset offset = compare_clocks();
    auto lanes = lanes_of_all(run(), offset);
    shift_to_zero(lanes);
    report(lanes, offset);
    if (context_.world() > 1) show_contrast();
  }

 private:
  std::int64_t side() const { return context_.device.is_cuda() ? 4096 : 256; }

  // With a GPU: after all its queued work.
  double time_now() const {
    if (context_.device.is_cuda()) torch::cuda::synchronize(context_.device.index());
    return now_ms();
  }

  // The fastest of several runs, as others may use the machine, too.
  template <class Do>
  double ms_of(const Do& what) const {
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 10; ++i) {
      const double begin = time_now();
      what();
      fastest = std::min(fastest, time_now() - begin);
    }
    return std::max(fastest, 1e-3);
  }

  void work(std::int64_t products) const {
    const torch::NoGradGuard no_grad;
    for (std::int64_t i = 0; i < products; ++i) torch::mm(matrix_, matrix_);
  }

  at::Tensor batch(std::int64_t rows) const { return torch::rand({rows, kInputs}, torch::device(context_.device)); }

  // Rank 0 measures the machine's speed, so that the times are similar everywhere; the others use its numbers.
  void agree_on_work() {
    nlohmann::json found;
    if (context_.is_main()) {
      constexpr std::int64_t kRows = 64;
      TourNet net(kInputs, kHiddenUnits, kOutputs);
      net.to(context_.device);
      const at::Tensor input = batch(kRows);
      const double product = ms_of([&] { work(1); }), pass = ms_of([&] { net.forward(input); });
      found = {std::ceil(kWorkMs / product), std::clamp(std::ceil(kRows * kForwardMs / pass), 64.0, 65536.0)};
    }
    found = broadcast_object(found, 0, context_.group);
    products_ = std::llround(work_factor_ * found.at(0).get<double>());
    rows_ = std::llround(work_factor_ * found.at(1).get<double>());
  }

  // Processes of one machine share a clock. For other machines rank 0 measures by messages what to add to theirs.
  ClockOffset compare_clocks() {
    const auto here = machine_group(context_.group).global_ranks();
    const bool same = std::find(here.begin(), here.end(), 0) != here.end();
    const auto all = all_gather_object(same, context_.group);
    ClockOffset own;
    for (int rank = 0; rank < context_.world(); ++rank) {
      if (all[static_cast<std::size_t>(rank)].get<bool>()) continue;
      ++remote_ranks_;
      if (context_.is_main()) {
        const ClockOffset found = measure_offset(rank);
        send_object({found.ms, found.uncertainty}, rank, /*tag=*/1, context_.group);
      } else if (context_.rank() == rank) {
        own = reply_with_clock();
      }
    }
    return own;
  }

  ClockOffset measure_offset(int rank) const {
    const at::Tensor clock = torch::zeros({1}, torch::device(context_.device).dtype(torch::kDouble));
    std::vector<RoundTrip> trips;
    for (int i = 0; i < kRoundTrips; ++i) {
      const double sent = time_now();
      send(clock, rank, /*tag=*/0, context_.group);
      recv(clock, rank, /*tag=*/0, context_.group);
      const double answered = clock.item<double>();
      trips.push_back({sent, answered, now_ms()});
    }
    return offset_from(trips);
  }

  ClockOffset reply_with_clock() const {
    const at::Tensor clock = torch::zeros({1}, torch::device(context_.device).dtype(torch::kDouble));
    for (int i = 0; i < kRoundTrips; ++i) {
      recv(clock, 0, /*tag=*/0, context_.group);
      clock.item<double>();  // on a GPU: waits for its arrival
      clock.fill_(now_ms());
      send(clock, 0, /*tag=*/0, context_.group);
    }
    const auto found = recv_object(0, /*tag=*/1, context_.group);
    return {found.at(0), found.at(1)};
  }

  Lane run() const {
    const auto net = std::make_shared<TourNet>(kInputs, kHiddenUnits, kOutputs);
    net->to(context_.device);
    // One bucket: then the exchange begins when the last gradient is ready, and a rank's own part ends there, too.
    DistributedDataParallel<TourNet> ddp(net, {.bucket_bytes = 64 << 20}, context_.group);
    double own_done = 0;
    net->first->weight.register_hook([&](const at::Tensor&) { own_done = time_now(); });  // backward ends here
    const at::Tensor input = batch(rows_);
    const auto step = [&](Lane* lane) {
      const double begin = time_now();
      const at::Tensor loss = ddp.forward(input).pow(2).mean();
      const double computed = time_now();
      loss.backward();
      const double done = time_now();
      ddp.zero_grad();
      if (!lane) return;
      lane->push_back({Activity::forward, begin, computed});
      lane->push_back({Activity::backward, computed, own_done});
      lane->push_back({Activity::gradients, own_done, done});
    };
    step(nullptr);  // the first step takes longer
    barrier(context_.group);
    Lane lane;
    const double begin = time_now();
    work(products_);
    const double arrived = time_now();
    barrier(context_.group);
    const double released = time_now();
    lane.push_back({Activity::work, begin, arrived});
    lane.push_back({Activity::barrier, arrived, released});
    for (int i = 0; i < kSyncSteps; ++i) step(&lane);
    return lane;
  }

  // By rank 0's clock.
  std::vector<Lane> lanes_of_all(const Lane& own, const ClockOffset& offset) const {
    nlohmann::json spans = nlohmann::json::array();
    for (const Span& span : own) spans.push_back({span.what, span.begin + offset.ms, span.end + offset.ms});
    std::vector<Lane> lanes;
    for (const auto& spans_of_rank : all_gather_object(spans, context_.group)) {
      lanes.emplace_back();
      for (const auto& span : spans_of_rank)
        lanes.back().push_back({span.at(0).get<Activity>(), span.at(1), span.at(2)});
    }
    return lanes;
  }

  static std::string work_note() {
    return "The last rank has " + decimal(kWorkRatio, 0) + " times as much to do as the first, the others in between.";
  }

  std::string clock_note(double uncertainty) const {
    if (remote_ranks_ == 0) return "The ranks are on one machine and read one clock.";
    return counted(static_cast<std::size_t>(remote_ranks_), "rank") +
           (remote_ranks_ == 1 ? " is on another machine: its clock was"
                               : " are on other machines: their clocks were") +
           " compared with rank 0's by " + std::to_string(kRoundTrips) +
           " messages there and back; they may be off by " + decimal(uncertainty, 3) + " ms.";
  }

  void report(const std::vector<Lane>& lanes, const ClockOffset& offset) {
    double uncertainty = 0;
    for (const auto& found : all_gather_object(offset.uncertainty, context_.group))
      uncertainty = std::max(uncertainty, found.get<double>());
    const bool alone = context_.world() == 1;
    context_.say("Each rank multiplies matrices and waits in a barrier for the others. Then it takes " +
                 std::to_string(kSyncSteps) +
                 " training steps:\nforward, backward, and the wait for the mean of all gradients.\n" +
                 (alone ? "This rank is alone, so it waits for nobody." : work_note()) + "\n" +
                 "Nobody sleeps: the time goes into products of matrices and into batches.\n" +
                 (alone ? "" : clock_note(uncertainty) + "\n"));
    context_.say(table_of(lanes));
    std::vector<SyncPoint> sync_points{{"barrier", 1}};
    for (std::size_t i = 0; i < kSyncSteps; ++i)
      sync_points.push_back({"gradients, step " + std::to_string(i + 1), 4 + 3 * i});
    for (const SyncPoint& sync_point : sync_points) {
      const WaitCheck wait_check = check_wait(lanes, sync_point, uncertainty);
      if (wait_check.right)
        context_.say(wait_check.text);
      else
        context_.report_error(wait_check.text);
    }
    if (!alone) context_.say("The second step begins on all ranks together without a barrier: backward is one.");
    context_.draw([&] { return picture_of(lanes, sync_points); });
  }

  // The steps of two copies of one net, each rank with its own samples: one copy alone, one in DDP.
  void show_contrast() {
    const auto new_net = [&] {
      torch::manual_seed(0);
      auto net = std::make_shared<TourNet>(kDriftInputs, kDriftUnits, 1);
      net->to(context_.device);
      return net;
    };
    const auto alone = new_net(), together = new_net();
    DistributedDataParallel<TourNet> ddp(together, {}, context_.group);
    torch::manual_seed(1 + static_cast<std::uint64_t>(context_.rank()));
    std::vector<double> drifts_alone, drifts_together;
    for (int i = 0; i < kDriftSteps; ++i) {
      const at::Tensor input = torch::rand({kDriftRows, kDriftInputs}, torch::device(context_.device));
      const at::Tensor target = input.sum(1, /*keepdim=*/true);
      torch::mse_loss(alone->forward(input), target).backward();
      torch::mse_loss(ddp.forward(input), target).backward();
      drifts_alone.push_back(drift_after_step(*alone));
      drifts_together.push_back(drift_after_step(*together));
    }
    report_drift(
        "Without synchronisation: the same net without DistributedDataParallel. Each rank applies the gradients "
        "of its\nown samples. The largest difference of its weights from rank 0's:",
        drifts_alone, /*differs=*/true);
    report_drift("The same steps in DistributedDataParallel, where each rank applies the mean of all gradients:",
                 drifts_together, /*differs=*/false);
  }

  // Plain gradient descent. Returns the largest difference of this rank's weights from rank 0's.
  double drift_after_step(TourNet& net) const {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> flat;
    for (at::Tensor& weights : net.parameters()) {
      weights -= kDriftRate * weights.grad();
      weights.grad().zero_();
      flat.push_back(weights.flatten());
    }
    const at::Tensor own = torch::cat(flat);
    at::Tensor first = own.clone();
    broadcast(first, 0, context_.group);
    return (own - first).abs().max().item<double>();
  }

  void report_drift(const std::string& what, const std::vector<double>& own, bool differs) {
    std::vector<std::vector<std::string>> rows{{""}};
    for (int i = 1; i <= kDriftSteps; ++i) rows.front().push_back("step " + std::to_string(i));
    std::string wrong;
    const auto all = all_gather_object(own, context_.group);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      rows.push_back({"rank " + std::to_string(rank)});
      for (const auto& drift : all[rank]) {
        rows.back().push_back(decimal(drift, 6));
        if (rank > 0 && (drift.get<double>() != 0) != differs) wrong = rows.back().front();
      }
    }
    context_.say("\n" + what + "\n" + table(rows));
    if (!wrong.empty())
      context_.report_error("the weights of " + wrong + " are " + (differs ? "equal to" : "different from") +
                            " rank 0's.");
    else
      context_.say(differs ? "Without the exchange of gradients each rank trains a model of its own."
                           : "All ranks have the same weights, bit for bit.");
  }

  TourContext& context_;
  const double work_factor_;  // of the work, relative to rank 0's
  const at::Tensor matrix_;
  std::int64_t products_ = 0, rows_ = 0;
  int remote_ranks_ = 0;
};

}  // namespace

void show_sync(TourContext& context) { Sync(context).show(); }

}  // namespace ddprun::train
