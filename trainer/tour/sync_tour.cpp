#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "ddprun/collectives.h"
#include "ddprun/distributed_data_parallel.h"
#include "trainer/tour/clock.h"
#include "trainer/tour/stage.h"
#include "trainer/tour/timeline.h"
#include "trainer/tour/tour_net.h"

namespace ddprun::train {
namespace {

constexpr double kWorkMs = 40, kForwardMs = 15;  // roughly, of the rank with the least work
constexpr double kMostToLeast = 4;               // the last rank's work relative to the first one's
constexpr int kSyncSteps = 2;
constexpr int kRoundTrips = 16;
constexpr std::int64_t kInputs = 256, kHiddenUnits = 512, kOutputs = 10;

double now_ms() {
  const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

class Sync {
 public:
  explicit Sync(Stage& stage)
      : stage_(stage),
        share_(stage.world() == 1 ? 1 : 1 + (kMostToLeast - 1) * stage.rank() / (stage.world() - 1)),
        matrix_(torch::rand({side(), side()}, torch::device(stage.device))) {}

  void show() {
    agree_on_work();
    const ClockOffset offset = compare_clocks();
    auto lanes = lanes_of_all(run(), offset);
    begin_at_zero(lanes);
    tell(lanes, offset);
  }

 private:
  std::int64_t side() const { return stage_.device.is_cuda() ? 4096 : 256; }

  // With a GPU: after all its queued work.
  double time_now() const {
    if (stage_.device.is_cuda()) torch::cuda::synchronize(stage_.device.index());
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

  at::Tensor batch(std::int64_t rows) const { return torch::rand({rows, kInputs}, torch::device(stage_.device)); }

  // Rank 0 measures the machine's speed, so that the times are similar everywhere; the others use its numbers.
  void agree_on_work() {
    nlohmann::json found;
    if (stage_.is_main()) {
      constexpr std::int64_t kRows = 64;
      TourNet net(kInputs, kHiddenUnits, kOutputs);
      net.to(stage_.device);
      const at::Tensor input = batch(kRows);
      const double product = ms_of([&] { work(1); }), pass = ms_of([&] { net.forward(input); });
      found = {std::ceil(kWorkMs / product), std::clamp(std::ceil(kRows * kForwardMs / pass), 64.0, 65536.0)};
    }
    found = broadcast_object(found, 0, stage_.group);
    products_ = std::llround(share_ * found.at(0).get<double>());
    rows_ = std::llround(share_ * found.at(1).get<double>());
  }

  // Processes of one machine share a clock. For other machines rank 0 measures by messages what to add to theirs.
  ClockOffset compare_clocks() {
    const auto here = machine_group(stage_.group).global_ranks();
    const bool same = std::find(here.begin(), here.end(), 0) != here.end();
    const auto all = all_gather_object(same, stage_.group);
    ClockOffset own;
    for (int rank = 0; rank < stage_.world(); ++rank) {
      if (all[static_cast<std::size_t>(rank)].get<bool>()) continue;
      ++elsewhere_;
      if (stage_.is_main()) {
        const ClockOffset found = ask(rank);
        send_object({found.add, found.doubt}, rank, /*tag=*/1, stage_.group);
      } else if (stage_.rank() == rank) {
        own = answer();
      }
    }
    return own;
  }

  ClockOffset ask(int rank) const {
    const at::Tensor clock = torch::zeros({1}, torch::device(stage_.device).dtype(torch::kDouble));
    std::vector<RoundTrip> trips;
    for (int i = 0; i < kRoundTrips; ++i) {
      const double sent = time_now();
      send(clock, rank, /*tag=*/0, stage_.group);
      recv(clock, rank, /*tag=*/0, stage_.group);
      const double answered = clock.item<double>();
      trips.push_back({sent, answered, now_ms()});
    }
    return offset_from(trips);
  }

  ClockOffset answer() const {
    const at::Tensor clock = torch::zeros({1}, torch::device(stage_.device).dtype(torch::kDouble));
    for (int i = 0; i < kRoundTrips; ++i) {
      recv(clock, 0, /*tag=*/0, stage_.group);
      clock.item<double>();  // on a GPU: waits for its arrival
      clock.fill_(now_ms());
      send(clock, 0, /*tag=*/0, stage_.group);
    }
    const auto found = recv_object(0, /*tag=*/1, stage_.group);
    return {found.at(0), found.at(1)};
  }

  Lane run() const {
    const auto net = std::make_shared<TourNet>(kInputs, kHiddenUnits, kOutputs);
    net->to(stage_.device);
    // One bucket: then the exchange begins when the last gradient is ready, and a rank's own part ends there, too.
    DistributedDataParallel<TourNet> ddp(net, {.bucket_bytes = 64 << 20}, stage_.group);
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
    barrier(stage_.group);
    Lane lane;
    const double begin = time_now();
    work(products_);
    const double came = time_now();
    barrier(stage_.group);
    const double left = time_now();
    lane.push_back({Activity::work, begin, came});
    lane.push_back({Activity::barrier, came, left});
    for (int i = 0; i < kSyncSteps; ++i) step(&lane);
    return lane;
  }

  // By rank 0's clock.
  std::vector<Lane> lanes_of_all(const Lane& own, const ClockOffset& offset) const {
    nlohmann::json spans = nlohmann::json::array();
    for (const Span& span : own) spans.push_back({span.what, span.begin + offset.add, span.end + offset.add});
    std::vector<Lane> lanes;
    for (const auto& facts : all_gather_object(spans, stage_.group)) {
      lanes.emplace_back();
      for (const auto& span : facts) lanes.back().push_back({span.at(0).get<Activity>(), span.at(1), span.at(2)});
    }
    return lanes;
  }

  static std::string who_has_how_much() {
    return "The last rank has " + decimal(kMostToLeast, 0) +
           " times as much to do as the first, the others in between.";
  }

  std::string about_the_clocks(double doubt) const {
    if (elsewhere_ == 0) return "The ranks are on one machine and read one clock.";
    return counted(static_cast<std::size_t>(elsewhere_), "rank") +
           (elsewhere_ == 1 ? " is on another machine: its clock was" : " are on other machines: their clocks were") +
           " compared with rank 0's by " + std::to_string(kRoundTrips) +
           " messages there and back; they may be off by " + decimal(doubt, 3) + " ms.";
  }

  void tell(const std::vector<Lane>& lanes, const ClockOffset& offset) {
    double doubt = 0;
    for (const auto& found : all_gather_object(offset.doubt, stage_.group))
      doubt = std::max(doubt, found.get<double>());
    const bool alone = stage_.world() == 1;
    stage_.say("Each rank multiplies matrices and waits in a barrier for the others. Then it takes " +
               std::to_string(kSyncSteps) +
               " training steps:\nforward, backward, and the wait for the mean of all gradients.\n" +
               (alone ? "This rank is alone, so it waits for nobody." : who_has_how_much()) + "\n" +
               "Nobody sleeps: the time goes into products of matrices and into batches.\n" +
               (alone ? "" : about_the_clocks(doubt) + "\n"));
    stage_.say(table_of(lanes));
    std::vector<Meeting> meetings{{"barrier", 1}};
    for (std::size_t i = 0; i < kSyncSteps; ++i)
      meetings.push_back({"gradients, step " + std::to_string(i + 1), 4 + 3 * i});
    for (const Meeting& meeting : meetings) {
      const Finding finding = finding_of(lanes, meeting, doubt);
      if (finding.right)
        stage_.say(finding.text);
      else
        stage_.wrong(finding.text);
    }
    if (!alone) stage_.say("The second step begins on all ranks together without a barrier: backward is one.");
    stage_.draw([&] { return picture_of(lanes, meetings); });
  }

  Stage& stage_;
  const double share_;  // of the work, relative to rank 0's
  const at::Tensor matrix_;
  std::int64_t products_ = 0, rows_ = 0;
  int elsewhere_ = 0;
};

}  // namespace

void show_sync(Stage& stage) { Sync(stage).show(); }

}  // namespace ddprun::train
