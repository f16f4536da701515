// The beats that the library writes by itself, in a page in the agent's place. A rank is late until the other one's
// page shows that it waits, and for what.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "ddprun/collectives.h"
#include "ddprun/data_loader.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/loss_guard.h"
#include "ddprun/worker.h"
#include "rendezvous/channel/worker_channel.h"
#include "tests/trainer/ddp_worker.h"

namespace ddprun::test {
namespace {

namespace nn = torch::nn;
using Objects = std::vector<nlohmann::json>;

// The page of this process. Never destroyed.
const ddprun_channel_page& make_page() {
  const int fd = memfd_create("page", 0);
  require(ftruncate(fd, DDPRUN_CHANNEL_BYTES) == 0, "a page can be made");
  auto* page =
      static_cast<ddprun_channel_page*>(mmap(nullptr, DDPRUN_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  page->magic = DDPRUN_CHANNEL_MAGIC;
  page->version = DDPRUN_CHANNEL_VERSION;
  page->bytes = DDPRUN_CHANNEL_BYTES;
  setenv(DDPRUN_CHANNEL_VARIABLE, std::to_string(fd).c_str(), 1);
  return *page;
}

struct Seen {
  explicit Seen(const ddprun_channel_page& page) {
    ddprun_channel_beat_record record;
    while (!ddprun_channel_read_beat_(&page.beat, &record)) std::this_thread::yield();
    kind = static_cast<ddprun_beat>(record.first & 0xff);
    waits = record.first >> 8;
    char text[sizeof record.second + 1] = {};
    std::memcpy(text, &record.second, sizeof record.second);
    name = text;
  }
  ddprun_beat kind;
  std::uint64_t waits;
  std::string name;
};

bool eventually(const std::function<bool()>& yes) {
  using namespace std::chrono_literals;
  for (const auto end = std::chrono::steady_clock::now() + 30s; !yes(); std::this_thread::sleep_for(1ms))
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

class Check {
 public:
  explicit Check(const ProcessGroup& group) : group_(group), page_(make_page()) {}

  Seen seen() const { return Seen(page_); }

  // The call waits for rank `late` under this name, once, and computing goes on after it.
  void waits(const std::string& name, int late, const std::function<void()>& call) {
    const std::string key = "late/" + std::to_string(++calls_), what = name + " (" + std::to_string(calls_) + "): ";
    const auto store = group_.store();
    const std::uint64_t before = seen().waits;
    bool waited = true;
    std::thread watching;
    if (group_.rank() == late)
      store->wait({key}, std::chrono::seconds(40));
    else
      watching = std::thread([&] {
        waited = eventually([&] { return seen().kind == DDPRUN_BEAT_WAIT && seen().name == name; });
        store->set(key, "");
      });
    call();
    if (watching.joinable()) watching.join();
    require(waited, what + "the other rank is seen to wait");
    require(seen().waits == before + 1, what + "it is one wait");
    require(seen().kind == DDPRUN_BEAT_COMPUTE, what + "computing goes on");
  }

  void waits_not(const std::string& what, const std::function<void()>& call) {
    const std::uint64_t before = seen().waits;
    call();
    require(seen().waits == before && seen().kind == DDPRUN_BEAT_COMPUTE, what + ": nothing waits");
  }

 private:
  const ProcessGroup group_;
  const ddprun_channel_page& page_;
  int calls_ = 0;
};

void check_collectives(const ProcessGroup& group, Check& check) {
  const at::Tensor one = torch::ones({2});
  check.waits("barrier", 1, [&] { barrier(group); });
  check.waits("reduce", 1, [&] { all_reduce(one, ReduceOp::sum, group); });
  check.waits("reduce", 1, [&] { reduce_dict({{"a", 1.0}}, true, group); });
  check.waits("bcast", 1, [&] { broadcast(one, 1, group); });
  check.waits("gather", 1, [&] { all_gather_object("a", group); });
  check.waits("scatter", 1, [&] { scatter_object(group.rank() == 1 ? Objects{1, 2} : Objects{}, 1, group); });
  check.waits("redscat", 0, [&] { reduce_scatter({one, one}, ReduceOp::sum, group); });
  check.waits("group", 0, [&] { new_group({0, 1}, group); });
  check.waits("guard", 1, [&] { LossGuard({}, group).admits(one, 1); });
  check.waits_not("another thread", [&] { std::thread([&] { barrier(group); }).join(); });
}

at::Tensor loss_of(const at::Tensor& output) { return output.square().mean(); }

void check_reducer(const ProcessGroup& group, Check& check, const DdpOptions& options) {
  const auto model = std::make_shared<nn::SequentialImpl>(nn::Linear(4, 3), nn::BatchNorm1d(3), nn::Linear(3, 2));
  std::unique_ptr<DistributedDataParallel<nn::SequentialImpl>> ddp;
  check.waits("model", 1,
              [&] { ddp = std::make_unique<DistributedDataParallel<nn::SequentialImpl>>(model, options, group); });
  const at::Tensor input = torch::randn({3, 4});
  const auto step = [&](bool late) {
    at::Tensor output;
    if (late)
      check.waits("buffers", 0, [&] { output = ddp->forward(input); });
    else
      output = ddp->forward(input);
    check.waits("grads", 1, [&] { loss_of(output).backward(); });
  };
  step(false);
  {
    const auto pause = ddp->no_sync();
    const at::Tensor output = ddp->forward(input);
    check.waits_not("a pass that only accumulates", [&] { loss_of(output).backward(); });
  }
  for (int i = 0; i < 3; ++i) step(i == 2);  // buckets are rebuilt in the first of them
}

void check_loader(Check& check, int threads) {
  bool loads = true;
  const auto get = [&](std::int64_t index, SampleRng&) {
    loads = loads && eventually([&] { return check.seen().kind == DDPRUN_BEAT_LOAD; });
    return index;
  };
  const auto collate = [](const std::vector<std::int64_t>& samples) { return samples.size(); };
  DataLoader loader(get, collate, {.threads = threads, .prefetch = 1});
  auto batches = loader.epoch({0, 1, 2}, 0);
  while (batches.next()) require(check.seen().kind == DDPRUN_BEAT_COMPUTE, "computing goes on with a batch");
  require(loads, "who waits for a batch loads");
}

}  // namespace

void check_beats(const ProcessGroup& group, const Words&) {
  Check check(group);
  Worker worker;
  worker.phase(Phase::training);
  check_collectives(group, check);
  check_reducer(group, check, {});
  check_reducer(group, check, {.static_graph = true});
  check_reducer(group, check, {.find_unused_parameters = true});
  check_loader(check, 0);
  check_loader(check, 1);
  worker.phase(Phase::evaluating);
  const std::uint64_t before = check.seen().waits;
  barrier(group);
  require(check.seen().waits == before + 1 && check.seen().kind == DDPRUN_BEAT_NONE, "an evaluation waits, too");
}

void print_parity_with_beats(const ProcessGroup& group, const Words& modes) {
  make_page();
  Worker worker;
  worker.phase(Phase::training);
  print_parity(group, modes);
}

}  // namespace ddprun::test
