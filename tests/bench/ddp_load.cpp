// What a job of the library does in a bench, a process for each rank; ddp_load.py, its peer, does the same by PyTorch.
// Rank 0 says in JSON what it took:
//   ddp_load turns FOLDER NET...               a line when all are warm; then, for each line "NET STEPS WAY" on every
//                                              rank's stdin, {samples of all ranks, seconds, held_seconds: of save()}.
//                                              WAY: plain, with a snapshot, asynchronous or synchronous, or with one
//                                              in memory after each step (held_seconds: of one)
//   ddp_load overlap NET STEPS BUCKET_BYTES    {seconds of communication, hidden: share of it while backward computed};
//                                              0 bytes: PyTorch's sizes
//   ddp_load loader torch|loop SECONDS THREADS...    samples per second with so many threads, each
// Without a launcher it is a world of one rank.
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/collectives.h"
#include "ddprun/data_loader.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/sampler.h"
#include "ddprun/snapshot.h"
#include "ddprun/tensor_batch.h"
#include "ddprun/worker.h"

namespace {

namespace nn = torch::nn;
using ddprun::ProcessGroup;
using nlohmann::json;
using Words = std::vector<std::string>;

constexpr int kClasses = 10;
constexpr int kWarmUpSteps = 5;  // the first one finds the order of the buckets, others make caches
constexpr int kBatchesInMemory = 4;
constexpr std::int64_t kImagesInMemory = 6400;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Layers of convolution, batch norm and ReLU; 0 halves the image.
struct NetSpec {
  int channels, size, kernel, batch;
  std::vector<int> widths;
  bool loads = false;  // through sampler and loader, else the same few batches again and again
};
const std::map<std::string, NetSpec> kNets{
    {"small", {1, 28, 5, 32, {16, 0, 32, 0}}},
    {"loaded", {1, 28, 5, 32, {16, 0, 32, 0}, true}},
    {"tiny", {1, 28, 3, 8, {4, 0, 8, 0}}},
    {"larger", {3, 32, 3, 16, {48, 0, 96, 0, 208, 208, 0, 416, 416, 0, 416, 416, 0}}},  // VGG-11, a little narrower
};

struct Net : nn::Module {
  explicit Net(const NetSpec& spec) {
    int from = spec.channels, size = spec.size;
    for (const int width : spec.widths) {
      if (width == 0) {
        layers->push_back(nn::MaxPool2d(2));
        size /= 2;
        continue;
      }
      layers->push_back(nn::Conv2d(nn::Conv2dOptions(from, width, spec.kernel).padding(spec.kernel / 2)));
      layers->push_back(nn::BatchNorm2d(width));
      layers->push_back(nn::ReLU());
      from = width;
    }
    layers->push_back(nn::Flatten());
    layers->push_back(nn::Linear(from * size * size, kClasses));
    register_module("layers", layers);
  }
  at::Tensor forward(const at::Tensor& images) { return layers->forward(images); }
  nn::Sequential layers;
};

using Batch = ddprun::Tensors;  // images, labels

std::function<Batch()> repeated_batches(const NetSpec& r) {
  std::vector<Batch> batches;
  for (int i = 0; i < kBatchesInMemory; ++i)
    batches.push_back({torch::randn({r.batch, r.channels, r.size, r.size}), torch::randint(kClasses, {r.batch})});
  return [batches, next = std::size_t{0}]() mutable { return batches[next++ % batches.size()]; };
}

// Epoch after epoch.
class EndlessLoader {
 public:
  EndlessLoader(const NetSpec& r, const ProcessGroup& group)
      : sampler_({.dataset_size = kImagesInMemory, .rank = group.rank(), .world_size = group.world_size()}),
        loader_(
            [images = torch::randn({kImagesInMemory, r.channels, r.size, r.size}),
             labels = torch::randint(kClasses, {kImagesInMemory})](std::int64_t index, ddprun::SampleRng&) {
              return Batch{images[index], labels[index]};
            },
            ddprun::Collate{}, {.batch_size = r.batch}) {}

  Batch next() {
    auto batch = batches_.next();
    if (batch) return std::move(*batch);
    sampler_.set_epoch(sampler_.epoch() + 1);
    batches_ = loader_.epoch(sampler_);
    return next();
  }

 private:
  ddprun::DistributedSampler sampler_;
  ddprun::DataLoader<Batch, Batch> loader_;
  ddprun::Batches<Batch> batches_ = loader_.epoch(sampler_);
};

std::function<Batch()> batches_of(const NetSpec& spec, const ProcessGroup& group) {
  if (!spec.loads) return repeated_batches(spec);
  return [endless = std::make_shared<EndlessLoader>(spec, group)] { return endless->next(); };
}

// Made first, in main().
ddprun::Worker& worker() {
  static ddprun::Worker only;
  return only;
}

// Of this process, whatever it trains.
std::uint64_t& all_steps() {
  static std::uint64_t count = 0;
  return count;
}

class Training {
 public:
  Training(const NetSpec& spec, const ProcessGroup& group, const ddprun::DdpOptions& options = {})
      : net(std::make_shared<Net>(spec)), ddp(net, options, group), next_batch_(batches_of(spec, group)) {}

  void steps(
      int count, const std::function<void()>& before_backward = [] {}) {
    for (int i = 0; i < count; ++i) {
      const Batch batch = next_batch_();
      ddp.zero_grad();
      const at::Tensor loss = torch::cross_entropy_loss(ddp.forward(batch[0]), batch[1]);
      before_backward();
      loss.backward();
      optimizer.step();
      worker().step_done(++all_steps());
    }
    done_ += count;
  }
  std::int64_t done() const { return done_; }

  const std::shared_ptr<Net> net;
  ddprun::DistributedDataParallel<Net> ddp;
  torch::optim::SGD optimizer{net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)};

 private:
  const std::function<Batch()> next_batch_;
  std::int64_t done_ = 0;
};

// All ranks', from when the last of them begins.
double seconds_of(const ProcessGroup& group, const std::function<void()>& work) {
  ddprun::barrier(group);
  const double began = now();
  work();
  ddprun::barrier(group);
  return now() - began;
}

// The first step of all has a single bucket and hides nothing; a second job begins with the buckets it has found.
json overlap(const ProcessGroup& group, const Words& words) {
  const NetSpec& spec = kNets.at(words.at(0));
  ddprun::DdpOptions options;
  if (const auto bytes = std::stoull(words.at(2)); bytes > 0) options.bucket_bytes = bytes;
  {
    Training warm_up(spec, group, options);
    warm_up.steps(kWarmUpSteps);
    options.bucket_order = warm_up.ddp.bucket_order();
  }
  Training training(spec, group, options);
  training.steps(std::stoi(words.at(1)));
  const ddprun::DdpTimes times = training.ddp.times();
  const double communication = std::chrono::duration<double>(times.communication).count();
  return {{"seconds", communication},
          {"hidden", std::chrono::duration<double>(times.overlapped).count() / communication}};
}

// With a save() before the first of the steps, and its end within them, with one in memory after each step, or without.
json turn(Training& training, const ProcessGroup& group, int steps, ddprun::Snapshots* snapshots, bool in_memory) {
  const ddprun::TrainingState state{.model = *training.net, .optimizer = &training.optimizer};
  const auto request = [&] {
    return ddprun::SaveRequest{.at = {.step = training.done()}, .bucket_order = training.ddp.bucket_order()};
  };
  double held = 0;
  const auto hold = [&](const auto& call) {
    const double began = now();
    call();
    held += now() - began;
  };
  const auto finish = [&] { hold([&] { snapshots->finish_save_in_memory(); }); };
  const double seconds = seconds_of(group, [&] {
    for (int i = 0; in_memory && i < steps; ++i) {
      training.steps(1, finish);
      hold([&] { snapshots->begin_save_in_memory(state, request()); });
    }
    if (in_memory) return finish();
    if (snapshots) hold([&] { snapshots->save(state, request()); });
    training.steps(steps);
    if (snapshots) snapshots->finish();
  });
  return {{"seconds", seconds}, {"held_seconds", in_memory ? held / steps : held}};
}

// Who asks lets the peer take turns with us.
void turns(const ProcessGroup& group, const Words& words) {
  std::map<std::string, std::unique_ptr<Training>> trainings;
  for (auto net = words.begin() + 1; net != words.end(); ++net) {
    trainings[*net] = std::make_unique<Training>(kNets.at(*net), group);
    trainings[*net]->steps(kWarmUpSteps);
  }
  ddprun::Snapshots asynchronous({.path = words.at(0) + "/asynchronous.pt"}, group);
  ddprun::Snapshots synchronous({.path = words.at(0) + "/synchronous.pt", .asynchronous = false}, group);
  const auto say = [&](const json& answer) {
    if (group.is_main_process()) std::cout << answer << std::endl;
  };
  say("ready");
  std::string net, way;
  for (int steps = 0; std::cin >> net >> steps >> way;) {
    ddprun::Snapshots* const snapshots = way == "plain" ? nullptr : way == "synchronous" ? &synchronous : &asynchronous;
    json took = turn(*trainings.at(net), group, steps, snapshots, way == "memory");
    took["samples"] = kNets.at(net).batch * steps * group.world_size();
    say(took);
  }
}

// A data set of images in memory, each of which is cropped, flipped and made floats.
class Images {
 public:
  static constexpr std::int64_t kCount = kImagesInMemory, kSize = 32, kPadding = 4, kChannels = 3;

  ddprun::Tensors by_torch(std::int64_t index, ddprun::SampleRng& rng) const {
    at::Tensor image = torch::constant_pad_nd(images_[index], {kPadding, kPadding, kPadding, kPadding});
    const std::int64_t top = rng.below(2 * kPadding + 1), left = rng.below(2 * kPadding + 1);
    image = image.narrow(1, top, kSize).narrow(2, left, kSize);
    if (rng.below(2) == 1) image = image.flip(2);
    return {image.to(torch::kFloat).div(255).sub(mean_).div(deviation_), labels_[index]};
  }

  ddprun::Tensors by_loop(std::int64_t index, ddprun::SampleRng& rng) const {
    const std::int64_t down = rng.below(2 * kPadding + 1) - kPadding, right = rng.below(2 * kPadding + 1) - kPadding;
    const bool flip = rng.below(2) == 1;
    const auto* from = images_.const_data_ptr<std::uint8_t>() + index * kChannels * kSize * kSize;
    at::Tensor image = torch::empty({kChannels, kSize, kSize});
    auto* to = image.mutable_data_ptr<float>();
    const auto inside = [](std::int64_t at) { return at >= 0 && at < kSize; };
    for (std::int64_t channel = 0; channel < kChannels; ++channel, from += kSize * kSize) {
      const auto& value = values_[static_cast<std::size_t>(channel)];
      for (std::int64_t y = down; y < down + kSize; ++y)
        for (std::int64_t i = 0; i < kSize; ++i) {
          const std::int64_t x = right + (flip ? kSize - 1 - i : i);
          *to++ = value[inside(x) && inside(y) ? from[y * kSize + x] : 0];
        }
    }
    return {image, labels_[index]};
  }

 private:
  const at::Tensor images_ = torch::randint(256, {kCount, kChannels, kSize, kSize}, torch::kByte);
  const at::Tensor labels_ = torch::randint(kClasses, {kCount});
  const at::Tensor mean_ = torch::tensor({0.49F, 0.48F, 0.45F}).view({kChannels, 1, 1});
  const at::Tensor deviation_ = torch::tensor({0.25F, 0.24F, 0.26F}).view({kChannels, 1, 1});
  const std::array<std::array<float, 256>, kChannels> values_ = [this] {  // of each byte
    std::array<std::array<float, 256>, kChannels> values;
    for (std::size_t channel = 0; channel < values.size(); ++channel)
      for (std::size_t byte = 0; byte < 256; ++byte)
        values[channel][byte] = (static_cast<float>(byte) / 255 - mean_.const_data_ptr<float>()[channel]) /
                                deviation_.const_data_ptr<float>()[channel];
    return values;
  }();
};

json loader(const Words& words) {
  const Images images;
  const bool by_torch = words.at(0) == "torch";
  const auto get = [&](std::int64_t index, ddprun::SampleRng& rng) {
    return by_torch ? images.by_torch(index, rng) : images.by_loop(index, rng);
  };
  json rates;
  for (std::size_t i = 2; i < words.size(); ++i) {
    ddprun::DataLoader loader(get, ddprun::Collate{}, {.batch_size = 128, .threads = std::stoi(words[i])});
    ddprun::DistributedSampler sampler({.dataset_size = Images::kCount});
    const auto epoch = [&] {
      sampler.set_epoch(sampler.epoch() + 1);
      auto batches = loader.epoch(sampler);
      std::int64_t samples = 0;
      while (const auto batch = batches.next()) samples += (*batch)[0].size(0);
      return samples;
    };
    epoch();
    const double began = now(), min_seconds = std::stod(words.at(1));
    std::int64_t samples = 0;
    while (now() - began < min_seconds) samples += epoch();
    rates.push_back(static_cast<double>(samples) / (now() - began));
  }
  return rates;
}

json run(const Words& words) {
  const Words more(words.begin() + 1, words.end());
  if (words[0] == "loader") return loader(more);
  worker().phase(ddprun::Phase::meeting);
  const ProcessGroup group = ddprun::init_process_group();
  worker().phase(ddprun::Phase::training);
  json result;
  if (words[0] == "turns") turns(group, more);
  if (words[0] == "overlap") result = overlap(group, more);
  if (!group.is_main_process()) result = nullptr;
  ddprun::barrier(group);
  ddprun::destroy_process_group();
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  const Words words(argv + 1, argv + argc);
  const Words known{"turns", "overlap", "loader"};
  if (words.empty() || std::find(known.begin(), known.end(), words[0]) == known.end()) {
    std::fputs("usage: ddp_load turns|overlap|loader ...\n", stderr);
    return 2;
  }
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const json result = run(words);
  if (!result.is_null()) std::cout << result << std::endl;
} catch (const std::exception& error) {
  std::fprintf(stderr, "ddp_load: %s\n", error.what());
  return 1;
}
