// SIGTERM while `train` evaluates: the evaluation ends at once, and the next start makes it again. The whole run is
// then that of one that nobody disturbed: weights, printed lines, metrics and the best epoch.
#include <sys/mman.h>

#include <nlohmann/json.hpp>

#include "rendezvous/base/fd.h"
#include "rendezvous/channel/worker_channel.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "tests/trainer/ranks.h"

namespace {

constexpr auto kLimit = 120s;
constexpr int kTestImages = 4800;  // 24 batches on each of two ranks, far longer than the steps of an epoch

// One run and all that it writes.
struct Course {
  explicit Course(const TempFolder& data) : data_folder((data / "cifar").string()) {}

  Words settings() const {
    const Words files{
        "--data",           data_folder, "--snapshot",      folder / "s.pt", "--metrics",
        folder / "m.jsonl", "--result",  folder / "r.json", "--publish",     folder / "weights.safetensors"};
    return with(files, split("3 --dataset=cifar10 --model=resnet18 --set=model.width_divisor=8 --batch-size=16 "
                             "--schedule=exponential --best=loss --patience=5 --judge-by=loss --log-every=1"));
  }
  Words under_ddprun() const {
    return test::under_ddprun({"--standalone", "--nproc_per_node=2"}, train_with(settings()));
  }
  // Without times and speeds, which are never equal, and this process's share of the samples.
  std::string metrics() const {
    std::istringstream lines(read_file(folder / "m.jsonl"));
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      auto row = nlohmann::json::parse(line);
      for (const char* name : {"time", "samples_per_second"}) row.erase(name);
      out += row.dump() + "\n";
    }
    return out;
  }
  std::string result() const {
    auto result = nlohmann::json::parse(read_file(folder / "r.json"));
    for (const char* name : {"samples", "seconds", "samples_per_second", "snapshot"}) result.erase(name);
    return result.dump(2);
  }
  std::string weights() const { return read_file(folder / "weights.safetensors"); }

  TempFolder folder;
  std::string data_folder;
};

// What a worker has told its agent, read from its page.
ddprun_phase phase_of(pid_t worker) {
  const auto environment = environment_of(worker);
  const auto number = environment.find(DDPRUN_CHANNEL_VARIABLE);
  if (number == environment.end()) return DDPRUN_PHASE_UNKNOWN;
  const Fd page(open(("/proc/" + std::to_string(worker) + "/fd/" + number->second).c_str(), O_RDONLY | O_CLOEXEC));
  if (!page) return DDPRUN_PHASE_UNKNOWN;
  void* const at = mmap(nullptr, DDPRUN_CHANNEL_BYTES, PROT_READ, MAP_SHARED, page.get(), 0);
  if (at == MAP_FAILED) return DDPRUN_PHASE_UNKNOWN;
  ddprun_channel_record record{};
  const bool valid = ddprun_channel_read_(&static_cast<const ddprun_channel_page*>(at)->phase, &record) != 0;
  munmap(at, DDPRUN_CHANNEL_BYTES);
  return valid ? static_cast<ddprun_phase>(record.first) : DDPRUN_PHASE_UNKNOWN;
}

void require_equal(const Course& disturbed, const Words& lines, const Course& calm, const Words& calm_lines) {
  CHECK(lines == calm_lines);
  CHECK(disturbed.metrics() == calm.metrics());
  CHECK(disturbed.result() == calm.result());
  CHECK((disturbed.weights() == calm.weights() && !calm.weights().empty()));  // bytes, not to be printed
}

}  // namespace

TEST_CASE("SIGTERM during an evaluation ends it at once, and the next start makes it again as if undisturbed",
          "[stories][evaluation]") {
  const TempFolder data;
  make_cifar10(data / "cifar", 64, kTestImages, 1);
  const Course calm(data), disturbed(data);
  const Ended whole = run(calm.under_ddprun(), kLimit, kOneThread);
  REQUIRE(whole == exited(0));

  Command job(disturbed.under_ddprun(), kOneThread);
  job.wait_for_output("^epoch 1 of 3: ", kLimit);
  job.wait_for_output("^epoch 2 step 2 ", kLimit);
  const pid_t rank_1 = job.wait_for_process("RANK", "1", 10s);
  REQUIRE(eventually([&] { return phase_of(rank_1) == DDPRUN_PHASE_EVALUATING; }, kLimit));
  job.kill(SIGTERM);
  const Ended left = job.wait_exit(kLimit);
  CAPTURE(left.out, left.err);
  CHECK(left == exited(75));
  CHECK_THAT(left.out, !Contains("epoch 2 of 3: "));
  CHECK_THAT(left.out, Contains("saved at step 4; the next start resumes from there"));

  const Ended again = run(disturbed.under_ddprun(), kLimit, kOneThread);
  CHECK(again == exited(0));
  CHECK_THAT(again.out, !Contains("epoch 2 step"));
  require_equal(disturbed, epoch_lines(left.out + again.out), calm, epoch_lines(whole.out));
}

TEST_CASE("SIGTERM while a run that is over is evaluated once more leaves it as it is", "[stories][evaluation]") {
  const TempFolder data;
  make_cifar10(data / "cifar", 64, kTestImages, 1);
  const Course course(data);
  REQUIRE(run(course.under_ddprun(), kLimit, kOneThread) == exited(0));
  const std::string snapshot = read_file(course.folder / "s.pt");
  Command job(with(course.under_ddprun(), {"--predictions", course.folder / "p.csv"}), kOneThread);
  job.wait_for_output("nothing to do: ", kLimit);
  const pid_t rank_1 = job.wait_for_process("RANK", "1", 10s);
  REQUIRE(eventually([&] { return phase_of(rank_1) == DDPRUN_PHASE_EVALUATING; }, kLimit));
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(75));
  CHECK_FALSE(fs::exists(course.folder / "p.csv"));
  CHECK((read_file(course.folder / "s.pt") == snapshot));
}

TEST_CASE("SIGTERM to one rank that was started by hand ends an evaluation, too", "[stories][evaluation]") {
  const TempFolder data;
  make_cifar10(data / "cifar", 64, kTestImages, 1);
  const Course calm(data), disturbed(data);
  const Ended whole = Ranks(2, train_with(calm.settings())).wait_all_good();

  Ranks ranks(2, train_with(disturbed.settings()));
  ranks[0].wait_for_output("^epoch 2 step 2 ", kLimit);  // the last one: the ranks need longer to agree than it takes
  ranks[1].kill(SIGTERM);
  const Ended left = ranks[0].wait_exit(kLimit);
  CHECK(left == exited(75));
  CHECK(ranks[1].wait_exit(kLimit) == exited(75));
  CHECK_THAT(left.out, !Contains("epoch 2 of 3: "));

  const Ended again = Ranks(2, train_with(disturbed.settings())).wait_all_good();
  require_equal(disturbed, epoch_lines(left.out + again.out), calm, epoch_lines(whole.out));
}
