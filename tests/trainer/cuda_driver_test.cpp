#include "trainer/ddp/group/cuda_driver.h"

#include "tests/support/test.h"

namespace {

constexpr int kCuda = 13020;

DriverAnswers driver(int version, int init = 0, int count = 2) {
  return {.found = true, .version = version, .init = init, .count = count};
}

using Answers = std::map<std::string, std::optional<std::string>>;

Ended train_with(const Answers& answers, const std::string& device, int ranks = 1, int restarts = 0) {
  const TempFolder folder;
  CommandOptions options{.env = answers, .cwd = folder.path()};
  options.env["LD_LIBRARY_PATH"] = programs_folder() + "/cuda_stub";
  options.env["OMP_NUM_THREADS"] = "1";
  return run({programs_folder() + "/ddprun", "--nproc-per-node=" + std::to_string(ranks),
              "--max-restarts=" + std::to_string(restarts), programs_folder() + "/train", "1", "--device=" + device},
             60s, options);
}

}  // namespace

TEST_CASE("GPUs of a driver that supports LibTorch's CUDA are used", "[cuda_driver]") {
  CHECK(gpus_of(driver(13000), kCuda).count == 2);
  CHECK(gpus_of(driver(14000), kCuda).count == 2);
  CHECK(gpus_of(driver(0), kCuda).count == 2);  // it does not tell
  CHECK(gpus_of(driver(12040), 12080).count == 2);
}

TEST_CASE("a driver that is too old is told of, where there is a GPU", "[cuda_driver]") {
  const Gpus gpus = gpus_of(driver(12040), kCuda);
  CHECK(gpus.count == 0);
  CHECK(gpus.too_old == "the NVIDIA driver supports CUDA 12.4, and this LibTorch needs CUDA 13 (driver R580 or later)");
  CHECK(gpus_of(driver(12040, 0, 0), kCuda).too_old.empty());
}

TEST_CASE("no driver, no device, or no CUDA in LibTorch means no GPUs, and nothing to tell", "[cuda_driver]") {
  for (const Gpus& none : {gpus_of({}, kCuda), gpus_of(driver(13000, 100), kCuda), gpus_of(driver(13000), 0)})
    CHECK((none.count == 0 && none.too_old.empty() && none.problem.empty()));
}

TEST_CASE("any other error of the driver is told, with what helps", "[cuda_driver]") {
  DriverAnswers answers = driver(13000, 802);
  answers.init_name = "CUDA_ERROR_SYSTEM_NOT_READY";
  CHECK(gpus_of(answers, kCuda).problem == "the NVIDIA driver says CUDA_ERROR_SYSTEM_NOT_READY (802)");
  CHECK_THAT(gpus_of(answers, kCuda).remedy, Contains("nvidia-fabricmanager"));
  CHECK(gpus_of(driver(13000, 999), kCuda).problem == "the NVIDIA driver says error (999)");
  for (const int error : {34, 803, 999}) CHECK_FALSE(gpus_of(driver(13000, error), kCuda).remedy.empty());
}

TEST_CASE("train asks the driver: what is wrong with it is a sentence, and never a silent run on the CPU",
          "[cuda_driver]") {
  const Answers not_ready{{"CUDA_STUB_INIT", "802"}}, old{{"CUDA_STUB_VERSION", "12040"}, {"CUDA_STUB_COUNT", "1"}};
  const Ended ill = train_with(not_ready, "auto");
  CHECK(ill.code != 0);
  CHECK_THAT(ill.err, Contains("CUDA_ERROR_SYSTEM_NOT_READY (802)") && Contains("--device cpu"));
  CHECK(train_with(not_ready, "cpu") == exited(0));
  const Ended two = train_with(old, "auto", 2);
  CHECK(two == exited(0));
  CHECK(two.err ==
        "train: the GPUs are not used: the NVIDIA driver supports CUDA 12.4, and this LibTorch needs CUDA 13 "
        "(driver R580 or later).\n");
  CHECK_THAT(train_with(old, "cuda").err, Contains("--device is cuda, but the NVIDIA driver supports CUDA 12.4"));
  CHECK(train_with({{"CUDA_STUB_INIT", "100"}}, "auto").err.empty());
}

TEST_CASE("two ranks that see the same GPU are refused by its name, before NCCL is", "[cuda_driver]") {
  const Ended end = train_with({{"CUDA_STUB_VERSION", "14000"}, {"CUDA_STUB_COUNT", "1"}}, "auto", 2, 3);
  CHECK(end == exited(93));  // a usage error: no restart brings a GPU
  CHECK_THAT(end.err,
             Contains("needs a GPU of its own for each rank, and rank 1 has none: rank 1 sees 1 for 2 ranks") &&
                 Contains("a usage error: no restart"));
}

TEST_CASE("a program asks for the GPUs before LibTorch has been asked for CUDA, or is told to", "[cuda_driver]") {
  const auto run_worker = [](std::vector<std::string> arguments, const std::string& count) {
    arguments.insert(arguments.begin(), programs_folder() + "/use_gpus_worker");
    return run(arguments, 60s,
               {.env = {{"LD_LIBRARY_PATH", programs_folder() + "/cuda_stub"},
                        {"CUDA_STUB_VERSION", "14000"},
                        {"CUDA_STUB_COUNT", count}}});
  };
  CHECK(run_worker({}, "2").out == "2 GPUs, CUDA 1\n");
  CHECK(run_worker({}, "0").out == "0 GPUs, CUDA 0\n");
  CHECK_THAT(run_worker({"late"}, "2").err, Contains("Call ddprun::use_gpus() first in main()"));
}

#ifdef DDPRUN_TORCH_GPU
TEST_CASE("workers of a template have the GPU half loaded where there is a driver, and a GPU may be seen",
          "[cuda_driver]") {
  using Value = std::optional<std::string>;
  const Value stub = programs_folder() + "/cuda_stub";
  const auto worker_says = [](const Value& libraries, const Value& visible, const char* prefork) {
    std::vector<std::string> words{programs_folder() + "/ddprun", "--nproc-per-node=1",
                                   programs_folder() + "/use_gpus_worker", "loaded"};
    if (*prefork) words.insert(words.begin() + 1, prefork);
    const Ended end = run(words, 60s, {.env = {{"LD_LIBRARY_PATH", libraries}, {"CUDA_VISIBLE_DEVICES", visible}}});
    INFO(end.err);
    return end.out;
  };
  CHECK(worker_says(stub, {}, "--prefork") == "loaded\n");
  CHECK(worker_says(stub, "0,1", "--prefork") == "loaded\n");
  CHECK(worker_says(stub, "", "--prefork") == "not loaded\n");
  CHECK(worker_says({}, {}, "--prefork") == "not loaded\n");
  CHECK(worker_says(stub, {}, "") == "not loaded\n");
}
#endif
