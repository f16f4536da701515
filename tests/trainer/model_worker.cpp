// The models of `train` at work, for tests and benches; model_peer.py, its peer, does the same by PyTorch and
// torchvision, and prints the same lines.
//
//   model_worker TASK MODEL [SIZE=VALUE ...] [+ TASK MODEL ...]    one task after another
//   weights    every tensor's name, shape and CRC-32, as they are drawn from the seed
//   scores     of one batch of the first step, by the model as it is evaluated
//   train      each step's loss, the mean over the ranks, then the CRC-32 of all weights
//   speed      samples of all ranks per second, after some steps to warm up
//
// Sizes are ModelSpec's, and those below. Without a launcher it is a world of one rank; rank 0 alone prints.
#include <torch/torch.h>
#include <zlib.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddprun/collectives.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/freed_memory.h"
#include "ddprun/optimizers.h"
#include "ddprun/sync_batch_norm.h"
#include "ddprun/weights.h"
#include "rendezvous/base/time.h"
#include "trainer/ddp/snapshot/named_tensors.h"
#include "trainer/models/channels_last.h"
#include "trainer/models/model_names.h"
#include "trainer/models/models.h"

namespace {

using ddprun::ProcessGroup;
using ddprun::train::Model;
using ddprun::train::ModelInput;
using Words = std::vector<std::string>;

struct Job {
  ddprun::train::ModelSpec spec;
  std::int64_t seed = 7, batch = 4, steps = 10, warm_up = 3, threads = 1;  // batch: of each rank
  double lr = 0.05;
  std::string load, save;                           // files of weights
  std::string optimizer = "sgd", mode = "default";  // adam, adamw; foreach, fused
  std::int64_t channels_last = 0;                   // 1: the model and its images
  std::int64_t sync = 0;                            // 1: batch norm over all ranks, which Python has on GPUs only
};

Job job_of(const Words& words) {
  Job job;
  job.spec.name = words.at(1);
  const std::map<std::string, std::int64_t*> numbers{{"channels", &job.spec.channels},
                                                     {"height", &job.spec.height},
                                                     {"width", &job.spec.width},
                                                     {"classes", &job.spec.classes},
                                                     {"vocabulary", &job.spec.vocabulary},
                                                     {"context", &job.spec.context},
                                                     {"layers", &job.spec.layers},
                                                     {"heads", &job.spec.heads},
                                                     {"embedding", &job.spec.embedding},
                                                     {"features", &job.spec.features},
                                                     {"outputs", &job.spec.outputs},
                                                     {"width_divisor", &job.spec.width_divisor},
                                                     {"seed", &job.seed},
                                                     {"batch", &job.batch},
                                                     {"steps", &job.steps},
                                                     {"warm_up", &job.warm_up},
                                                     {"threads", &job.threads},
                                                     {"sync", &job.sync},
                                                     {"channels_last", &job.channels_last}};
  const std::map<std::string, double*> fractions{{"dropout", &job.spec.dropout}, {"lr", &job.lr}};
  const std::map<std::string, std::string*> texts{{"head", &job.spec.head},
                                                  {"load", &job.load},
                                                  {"save", &job.save},
                                                  {"optimizer", &job.optimizer},
                                                  {"mode", &job.mode}};
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t sign = words[i].find('=');
    const std::string name = words[i].substr(0, sign), value = words[i].substr(sign + 1);
    if (numbers.count(name))
      *numbers.at(name) = std::stoll(value);
    else if (fractions.count(name))
      *fractions.at(name) = std::stod(value);
    else
      *texts.at(name) = value;
  }
  return job;
}

std::shared_ptr<Model> build(const Job& job) {
  torch::manual_seed(static_cast<std::uint64_t>(job.seed));
  auto model = ddprun::train::make_model(job.spec);
  if (!job.load.empty()) ddprun::load_weights(*model, job.load);
  if (job.channels_last != 0) ddprun::train::to_channels_last(*model);
  return model;
}

struct Batch {
  at::Tensor inputs, targets;
};

// `n` samples.
Batch drawn(const ddprun::train::ModelSpec& spec, std::int64_t n) {
  switch (ddprun::train::find_model(spec.name)->input) {
    case ModelInput::tokens: {
      const at::Tensor tokens = torch::randint(spec.vocabulary, {n, spec.context + 1}, torch::kLong);
      return {tokens.slice(1, 0, spec.context), tokens.slice(1, 1)};
    }
    case ModelInput::features: {
      const at::Tensor features = torch::randn({n, spec.features});
      return {features, torch::randn({n, spec.outputs})};
    }
    default: {
      const at::Tensor images = torch::randn({n, spec.channels, spec.height, spec.width});
      return {images, torch::randint(spec.classes, {n}, torch::kLong)};
    }
  }
}

// This rank's part of a batch that is drawn whole.
Batch batch_of(const Job& job, std::int64_t step, std::int64_t rank, std::int64_t world) {
  torch::manual_seed(static_cast<std::uint64_t>(10'000 + step));
  const Batch whole = drawn(job.spec, job.batch * world);
  const auto part = [&](const at::Tensor& all) { return all.narrow(0, rank * job.batch, job.batch).contiguous(); };
  const at::Tensor inputs = part(whole.inputs);
  return {job.channels_last != 0 ? ddprun::train::to_channels_last(inputs) : inputs, part(whole.targets)};
}

at::Tensor loss_of(const Job& job, const at::Tensor& scores, const at::Tensor& targets) {
  switch (ddprun::train::find_model(job.spec.name)->input) {
    case ModelInput::tokens:
      return torch::cross_entropy_loss(scores.flatten(0, 1), targets.flatten());
    case ModelInput::features:
      return torch::mse_loss(scores, targets);
    default:
      return torch::cross_entropy_loss(scores, targets);
  }
}

uLong crc(uLong before, const at::Tensor& tensor) {
  const at::Tensor own = tensor.detach().contiguous();
  return crc32(before, static_cast<const Bytef*>(own.const_data_ptr()), static_cast<uInt>(own.nbytes()));
}

void print_weights(const Job& job, const ProcessGroup&) {
  for (const auto& [name, tensor] : ddprun::named_tensors(*build(job))) {
    std::string shape;
    for (const std::int64_t size : tensor.sizes()) {
      if (!shape.empty()) shape += 'x';
      shape += std::to_string(size);
    }
    std::printf("%s [%s] %08lx\n", name.c_str(), shape.c_str(), crc(0, tensor));
  }
}

void print_scores(const Job& job, const ProcessGroup&) {
  const torch::NoGradGuard no_grad;
  const auto model = build(job);
  model->eval();
  const at::Tensor scores = model->forward(batch_of(job, 0, 0, 1).inputs).flatten();
  for (std::int64_t i = 0; i < scores.numel(); ++i) std::printf("%.9g\n", scores[i].item<double>());
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Job& job, const std::vector<at::Tensor>& parameters) {
  namespace optim = torch::optim;
  const std::map<std::string, ddprun::StepMode> modes{{"default", ddprun::StepMode::automatic},
                                                      {"foreach", ddprun::StepMode::foreach},
                                                      {"fused", ddprun::StepMode::fused}};
  const ddprun::StepMode mode = modes.at(job.mode);
  if (job.optimizer == "adam") return std::make_unique<ddprun::Adam>(parameters, optim::AdamOptions(job.lr), mode);
  if (job.optimizer == "adamw") return std::make_unique<ddprun::AdamW>(parameters, optim::AdamWOptions(job.lr), mode);
  return std::make_unique<ddprun::SGD>(parameters, optim::SGDOptions(job.lr).momentum(0.9), mode);
}

class Training {
 public:
  Training(const Job& job, const std::shared_ptr<Model>& model, const ProcessGroup& group)
      : job_(job),
        ddp_(model, {.broadcast_buffers = model->training_reads_buffers()}, group),
        optimizer_(make_optimizer(job, model->parameters())) {}

  at::Tensor step(const Batch& batch) {
    ddp_.zero_grad();
    const at::Tensor loss = loss_of(job_, ddp_.forward(batch.inputs), batch.targets);
    loss.backward();
    optimizer_->step();
    return loss.detach();
  }

 private:
  const Job& job_;
  ddprun::DistributedDataParallel<Model> ddp_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

void print_training(const Job& given, const ProcessGroup& group) {
  Job job = given;
  job.seed += group.rank();  // rank 0's weights win
  const auto model = build(job);
  if (job.sync != 0 && ddprun::convert_sync_batchnorm(*model, ddprun::new_group({0, 1}, group)) == 0)
    throw std::runtime_error(job.spec.name + " has no batch norm");
  Training training(job, model, group);
  for (std::int64_t step = 0; step < job.steps; ++step) {
    const at::Tensor mean = training.step(batch_of(job, step, group.rank(), group.world_size())).clone();
    ddprun::all_reduce(mean, ddprun::ReduceOp::sum, group);
    if (group.is_main_process())
      std::printf("step %ld loss %.9g\n", static_cast<long>(step), mean.item<double>() / group.world_size());
  }
  if (!group.is_main_process()) return;
  uLong checksum = 0;
  for (const auto& named : ddprun::named_tensors(*model)) checksum = crc(checksum, named.tensor);
  std::printf("weights %08lx\n", checksum);
  if (!job.save.empty()) ddprun::publish(*model, job.save);
}

void print_speed(const Job& job, const ProcessGroup& group) {
  Training training(job, build(job), group);
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(batch_of(job, i, group.rank(), group.world_size()));
  ddprun::TimePoint began{};
  for (std::int64_t step = 0; step < job.warm_up + job.steps; ++step) {
    if (step == job.warm_up) {
      ddprun::barrier(group);
      began = ddprun::Clock::now();
    }
    training.step(batches[static_cast<std::size_t>(step) % batches.size()]);
  }
  ddprun::barrier(group);
  const std::chrono::duration<double> seconds = ddprun::Clock::now() - began;
  if (group.is_main_process())
    std::printf("samples_per_second %.2f\n",
                static_cast<double>(job.steps * job.batch * group.world_size()) / seconds.count());
}

void run(const Words& words, const ProcessGroup& group) {
  const std::map<std::string, void (*)(const Job&, const ProcessGroup&)> tasks{
      {"weights", print_weights}, {"scores", print_scores}, {"train", print_training}, {"speed", print_speed}};
  const Job job = job_of(words);
  torch::set_num_threads(static_cast<int>(job.threads));
  if (group.is_main_process()) std::printf("%s %s\n", words[0].c_str(), words[1].c_str());
  tasks.at(words[0])(job, group);
}

}  // namespace

int main(int argc, char** argv) try {
  ddprun::keep_freed_memory();  // as train does
  const ProcessGroup group = ddprun::init_process_group({.backend = ddprun::Backend::gloo});
  Words words;
  for (int i = 1; i <= argc; ++i) {
    if (i < argc && std::string(argv[i]) != "+") {
      words.emplace_back(argv[i]);
      continue;
    }
    run(words, group);
    words.clear();
  }
  ddprun::barrier(group);
  ddprun::destroy_process_group();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::fflush(nullptr);
  std::_Exit(1);  // the group's threads may wait for peers
}
