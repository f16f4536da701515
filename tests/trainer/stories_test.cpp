// What a course on distributed training shows, done with `train`: whole runs, by their numbers.
#include <nlohmann/json.hpp>

#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "tests/trainer/ranks.h"

namespace {

constexpr auto kLimit = 60s;
const std::string kPython = venv_python();

Words job_of_two(const Words& words) { return under_ddprun({"--standalone", "--nproc_per_node=2"}, train_with(words)); }

Words from_line(const Words& lines, const std::string& beginning) {
  auto it = lines.begin();
  while (it != lines.end() && !it->starts_with(beginning)) ++it;
  return {it, lines.end()};
}

nlohmann::json json_in(const std::string& path) { return nlohmann::json::parse(read_file(path)); }

std::vector<nlohmann::json> rows_in(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

// What Python says of some files.
std::string python_says(const std::string& program, const Words& files) {
  const Ended end = run(with({kPython, "-c", "import sys, torch\n" + program}, files), kLimit);
  CHECK(end == exited(0));
  return end.out;
}

// The names of two files' weights that have equal bits.
constexpr const char* kEqualWeights = R"(
def weights(path):
    file = torch.load(path, weights_only=True)
    return file.get("MODEL_STATE", file)
a, b = (weights(path) for path in sys.argv[1:])
print(*(name for name in a if name in b and a[name].shape == b[name].shape and torch.equal(a[name], b[name])))
)";

}  // namespace

TEST_CASE("MNIST with SyncBatchNorm: all ranks see the test set once, together, and only rank 0 prints", "[stories]") {
  const TempFolder folder;
  make_mnist(folder / "mnist", 300, 51, 1);  // 51: no multiple of the ranks
  Ranks ranks(2, train_with({"2", "--dataset=mnist", "--data", folder / "mnist", "--sync-bn", "--snapshot",
                             folder / "s.pt", "--predictions", folder / "seen.csv", "--result", folder / "r.json"}));
  const Ended first = ranks[0].wait_exit(kLimit), second = ranks[1].wait_exit(kLimit);
  CHECK(first == exited(0));
  CHECK(second == exited(0));
  CHECK_THAT(first.out, Contains("epoch 2 of 2: loss ") && Contains(" of 51)"));
  CHECK(second.out == "");
  CHECK(second.err == "");

  std::istringstream seen(read_file(folder / "seen.csv"));
  std::string line;
  std::getline(seen, line);
  CHECK(line == "sample,target,prediction");
  int samples = 0, correct = 0;
  while (std::getline(seen, line)) {
    std::istringstream words(line);
    int sample = -1, target = -1, prediction = -1;
    char comma = 0;
    words >> sample >> comma >> target >> comma >> prediction;
    CHECK(sample == samples++);
    correct += target == prediction;
  }
  CHECK(samples == 51);
  const auto result = json_in(folder / "r.json");
  CHECK(result["seconds"] > 0);
  const nlohmann::json expected{{"ended", "done"}, {"epochs", 2},        {"steps", 10},  {"samples", 600},
                                {"world_size", 2}, {"correct", correct}, {"tested", 51}, {"model", "convnet"}};
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(result[key] == value);
  }
}

TEST_CASE("transfer learning trains a new head on a frozen body", "[stories]") {
  const TempFolder folder;
  run_ranks(2, {"2", "--snapshot", folder / "body.pt", "--publish", folder / "body_weights.pt"});
  const Words transfer{"--transfer", folder / "body_weights.pt", "--skip=fc.", "--train-only=fc.", "--seed=5"};
  const Ended end =
      run_ranks(2, with({"2", "--snapshot", folder / "head.pt", "--publish", folder / "head_weights.pt"}, transfer));
  CHECK_THAT(end.out, Contains("weights of " + (folder / "body_weights.pt").string() +
                               ": loaded 14 of 16 tensors (2 "
                               "skipped)"));
  CHECK(python_says(kEqualWeights, {folder / "body_weights.pt", folder / "head_weights.pt"}) ==
        "layer1.0.weight layer1.0.bias layer1.1.weight layer1.1.bias layer1.1.running_mean layer1.1.running_var "
        "layer1.1.num_batches_tracked layer2.0.weight layer2.0.bias layer2.1.weight layer2.1.bias "
        "layer2.1.running_mean layer2.1.running_var layer2.1.num_batches_tracked\n");
  // A model of another size: what fits is taken, and the rest named.
  make_mnist(folder / "mnist", 64, 16, 1);
  const Ended other = run_ranks(1, {"1", "--dataset=mnist", "--data", folder / "mnist", "--snapshot", folder / "m.pt",
                                    "--transfer", folder / "body_weights.pt"});
  CHECK_THAT(other.out, Contains("loaded 15 of 16 tensors") && Contains("fc.weight"));
}

namespace {

Ranks two_by_hand(const std::string& url, const Words& words) {
  return Ranks::by_hand({0, 1}, train_with(with({"--init-method=" + url, "--rank={rank}", "--world-size=2"}, words)));
}

}  // namespace

TEST_CASE("SIGTERM to one rank that was started by hand makes all save after the same step and ask to be started again",
          "[stories]") {
  const TempFolder folder;
  const Words settings{"3", "--log-every=1", "--batch-size=5"};
  run_ranks(2, with({"--snapshot", folder / "undisturbed.pt"}, settings));
  const std::string url = "file://" + (folder / "meeting").string();
  Ranks ranks = two_by_hand(url, with({"--snapshot", folder / "stopped.pt"}, settings));
  ranks[0].wait_for_output("^epoch 1 step 20 ", kLimit);
  ranks[1].kill(SIGTERM);
  const Ended first = ranks[0].wait_exit(kLimit), second = ranks[1].wait_exit(kLimit);
  CHECK(first == exited(75));
  CHECK(second == exited(75));
  CHECK_THAT(first.out, Contains("saved at step ") && Contains("; the next start resumes from there"));
  CHECK_FALSE(fs::exists(folder / "meeting"));  // the same command works again
  two_by_hand(url, with({"--snapshot", folder / "stopped.pt"}, settings)).wait_all_good();
  CHECK(python_says(kEqualWeights, {folder / "undisturbed.pt", folder / "stopped.pt"}) ==
        python_says(kEqualWeights, {folder / "undisturbed.pt", folder / "undisturbed.pt"}));
}

TEST_CASE("half precision's scaler and an epoch's shorter last step are the same in a run that was stopped",
          "[stories]") {
  const TempFolder folder;
  const Words settings =
      split("2 --precision=fp16 --set=training.init_scale=1e10 --accumulate=4 --batch-size=7 --log-every=1");
  const auto in = [&](const std::string& file) { return with({"--snapshot", folder / file}, settings); };
  const Words undisturbed = epoch_lines(run_alone(in("undisturbed.pt")).out);
  CHECK(undisturbed.size() == 2 * (54 + 1));  // 1500 samples: 53 steps of 28, one of the 16 that are left
  Command job(train_with(in("stopped.pt")), kOneThread);
  job.wait_for_output("^epoch 1 step 30 ", kLimit);
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(75));
  const Words resumed = epoch_lines(run_alone(in("stopped.pt")).out);
  REQUIRE(!resumed.empty());
  CHECK(from_line(undisturbed, resumed.front()) == resumed);
  CHECK(python_says(
            "a, b = (torch.load(path, weights_only=True) for path in sys.argv[1:])\n"
            "print(a['SCALER_STATE'] == b['SCALER_STATE'], a['SCALER_STATE']['scale'] < 1e10, a['STEP'] == b['STEP'])",
            {folder / "undisturbed.pt", folder / "stopped.pt"}) == "True True True\n");
}

TEST_CASE("half precision is evaluated in half precision, too", "[stories]") {
  const TempFolder folder;
  const auto loss_of = [&](const Words& words) {
    run_ranks(2, with({"1", "--result", folder / "r.json", "--predictions", folder / "p.csv"}, words));
    return json_in(folder / "r.json")["test_loss"].get<double>();
  };
  const Words trained{"--snapshot", folder / "s.pt", "--precision=bf16"};
  const double loss = loss_of(trained);
  CHECK(loss_of(trained) == loss);  // nothing is left to train: the same weights
  CHECK(loss_of({"--snapshot", folder / "s.pt", "--precision=float"}) != loss);
  // The numbers of a regression are those of bfloat16 itself.
  loss_of({"--dataset=toy", "--precision=bf16", "--snapshot", folder / "toy.pt"});
  CHECK(python_says("values = [float(line.split(',')[2]) for line in open(sys.argv[1]).readlines()[1:]]\n"
                    "exact = torch.tensor(values)\n"
                    "print(len(values) > 0, torch.equal(exact.bfloat16().float(), exact))",
                    {folder / "p.csv"}) == "True True\n");
}

TEST_CASE("SIGTERM while the test set is looked at ends the run by the next step, and costs nothing", "[stories]") {
  const TempFolder folder;
  make_mnist(folder / "mnist", 64, 6000, 1);
  const auto in = [&](const std::string& file) -> Words {
    return {"3", "--dataset=mnist", "--data", folder / "mnist", "--log-every=1", "--snapshot", folder / file};
  };
  const Words undisturbed = epoch_lines(run_alone(in("undisturbed.pt")).out);
  Command job(train_with(in("stopped.pt")), kOneThread);
  job.wait_for_output("^epoch 1 step 2 ", kLimit);  // its last
  job.kill(SIGTERM);
  const Ended end = job.wait_exit(kLimit);
  CHECK(end == exited(75));
  CHECK_THAT(end.out, Contains("; the next start resumes from there") && !Contains("epoch 2 step 2 "));
  const Ended again = run_alone(in("stopped.pt"));
  CHECK(again == exited(0));
  CHECK_THAT(again.out, !Contains("epoch 1 step"));
  CHECK(from_line(epoch_lines(again.out), "epoch 2 step 2 ") == from_line(undisturbed, "epoch 2 step 2 "));
}

TEST_CASE("a run that no longer gets better ends early, keeps its best, and publishes that", "[stories]") {
  const TempFolder folder;
  const Words settings{"30",       "--patience=2",    "--best=accuracy", "--judge-by=accuracy",
                       "--lr=3",   "--clip-norm=100", "--snapshot",      folder / "s.pt",
                       "--result", folder / "r.json", "--publish",       folder / "best.safetensors"};
  const Ended end = run_ranks(2, settings);
  CHECK_THAT(end.out, Contains("ends early: the last 2 evaluations were no better than epoch "));
  const auto result = json_in(folder / "r.json");
  CHECK(result["ended"] == "early");
  CHECK(result["epochs"] == result["best"]["epoch"].get<int>() + 2);
  CHECK(python_says("from safetensors.torch import load_file\n"
                    "best = torch.load(sys.argv[1], weights_only=True)['MODEL_STATE']\n"
                    "published = load_file(sys.argv[2])\n"
                    "print(all(torch.equal(best[name], published[name]) for name in best), "
                    "torch.load(sys.argv[1], weights_only=True)['EPOCHS_RUN'])\n",
                    {folder / "s-best.pt", folder / "best.safetensors"}) ==
        "True " + result["best"]["epoch"].dump() + "\n");
  fs::remove(folder / "r.json");
  CHECK_THAT(run_ranks(2, settings).out, Contains("nothing to do: ") && Contains(" ended early, after "));
  const auto again = json_in(folder / "r.json");  // a script gets its answer all the same
  CHECK(again["ended"] == "early");
  CHECK(again["epochs"] == result["epochs"]);
  CHECK(again["accuracy"] == result["accuracy"]);
}

TEST_CASE("metrics of a run that is killed and resumed have each step once, for JSON and for TensorBoard",
          "[stories]") {
  const TempFolder folder;
  const Words settings{"2",         "--save-steps=4",   "--log-every=2", "--snapshot",    folder / "s.pt",
                       "--metrics", folder / "m.jsonl", "--tensorboard", folder / "board"};
  Command job(job_of_two(settings), kOneThread);
  const pid_t victim = job.wait_for_process("RANK", "0", kLimit);
  job.wait_for_output("^epoch 1 step 14 ", kLimit);
  REQUIRE(eventually([&] { return fs::exists(folder / "s.pt"); }, kLimit));
  kill(victim, SIGKILL);
  CHECK(job.wait_exit(kLimit) == exited(0));
  std::vector<int> steps;
  int epochs = 0;
  for (const auto& row : rows_in(folder / "m.jsonl")) {
    if (row.contains("accuracy"))
      ++epochs;
    else
      steps.push_back(row["step"]);
  }
  std::vector<int> expected;
  for (int step = 2; step <= 48; step += 2) expected.push_back(step);
  CHECK(steps == expected);
  CHECK(epochs == 2);
  const Ended board = run({kPython, "-c",
                           "import sys\n"
                           "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
                           "events = EventAccumulator(sys.argv[1]); events.Reload()\n"
                           "print([event.step for event in events.Scalars('loss')] == list(range(2, 50, 2)))",
                           folder / "board"},
                          kLimit);
  CHECK(board.out == "True\n");
}

TEST_CASE("each model trains on its data, from a file of settings, in each precision", "[stories]") {
  const TempFolder folder;
  make_text(folder / "text.txt", 3000, 1);
  folder.write(
      "gpt.toml",
      "[model]\nname = \"gpt\"\ndropout = 0.1\n[data]\nfolder = \"text.txt\"\ncontext = 16\n[training]\nepochs "
      "= \"???\"\nprecision = \"bf16\"\n[schedule]\nname = \"cosine\"\nwarmup = 1\n");
  folder.write(
      "resnet.toml",
      "[model]\nname = \"resnet18\"\nwidth_divisor = 16\nsync_batch_norm = true\n[data]\nname = "
      "\"synthetic\"\nsamples = 64\nheight = 16\nwidth = 16\naugment = true\n[training]\nepochs = 2\naccumulate "
      "= 2\nprecision = \"fp16\"\n[optimizer]\nname = \"adam\"\n");
  folder.write("toy.toml", "[data]\nname = \"toy\"\n[training]\nepochs = 2\nskip_bad_losses = 3\n");
  const auto trains = [&](const std::string& file, const Words& more, const std::string& line) {
    INFO(file);
    const Words words{"--config", folder / file, "--snapshot", folder / (file + ".pt")};
    CHECK_THAT(run_ranks(2, with(words, more)).out, Contains(line));
  };
  trains("gpt.toml", {"--set", "training.epochs=2", "--data", folder / "text.txt"}, "done: 2 epochs, test loss ");
  trains("resnet.toml", {}, "done: 2 epochs, accuracy ");
  make_cifar10(folder / "cifar", 96, 20, 1);
  folder.write("vgg.toml",
               "[model]\nname = \"vgg11_bn\"\nwidth_divisor = 16\n[data]\nname = \"cifar10\"\naugment = "
               "true\nnormalise = true\n");
  trains("vgg.toml", {"2", "--data", folder / "cifar"}, "done: 2 epochs, accuracy ");
  trains("toy.toml", {}, "done: 2 epochs, test loss ");
}

TEST_CASE("a text of other characters than the snapshot's is refused by one sentence", "[stories]") {
  const TempFolder folder;
  const auto run_on = [&](const std::string& text) {
    std::ofstream(folder / "text.txt") << text;
    return run_alone(with(split("1 --model=gpt --layers=1 --heads=1 --embedding=8 --context=4"),
                          {"--data", folder / "text.txt", "--snapshot", folder / "s.pt"}));
  };
  std::string text, other;
  for (int i = 0; i < 200; ++i) text += "some words ", other += "zome wordz ";
  CHECK(run_on(text) == exited(0));
  const std::string snapshot = read_file(folder / "s.pt");
  for (const std::string& changed : {text + "and XYZ", other}) {
    const Ended end = run_on(changed);
    CHECK(end == exited(2));
    CHECK_THAT(end.err,
               StartsWith("train: cannot go on ") && Contains("other characters") && Contains(", or start over"));
    CHECK(std::count(end.err.begin(), end.err.end(), '\n') == 1);
    INFO(end.err);
    CHECK(read_file(folder / "s.pt") == snapshot);
  }
}

TEST_CASE("data that one rank cannot use are one sentence, and no rank waits", "[stories]") {
  const TempFolder folder;
  make_mnist(folder / "mnist", 50, 10, 1);
  make_cifar10(folder / "cifar", 20, 5, 1);
  fs::create_directory(folder / "none");
  const auto ends = [&](const Words& words, const std::string& sentence, int code = 2) {
    INFO(sentence);
    const std::string said =
        Ranks(2, train_with(with({"1", "--snapshot", folder / "s.pt"}, words))).wait_all_refused(code);
    CHECK_THAT(said, Contains(sentence));
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  };
  const std::string mnist = (folder / "mnist").string(), cifar = (folder / "cifar").string();
  // Only rank 1 lacks them.
  fs::create_directory_symlink(folder / "mnist", folder / "data0");
  fs::create_directory(folder / "data1");
  ends({"--dataset=mnist", "--data", (folder / "data{rank}").string()}, "data1");
  fs::resize_file(folder / "mnist/train-images-idx3-ubyte", 1000);
  ends({"--dataset=mnist", "--data", mnist}, "train-images-idx3-ubyte", 1);
  fs::resize_file(folder / "cifar/test_batch.bin", 5 * 3073 - 1);
  ends({"--dataset=cifar10", "--data", cifar}, "test_batch.bin", 1);
  make_cifar10(folder / "cifar", 20, 5, 1);
  {
    std::fstream file(folder / "cifar/data_batch_1.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3 * 3073);
    file.put(10);
  }
  ends({"--dataset=cifar10", "--data", cifar}, "data_batch_1.bin", 1);
  ends({"--dataset=text", "--data", (folder / "none").string()}, "none");
  ends({"--model=vgg11_bn"}, "only 8 by 8 pixels");
  ends({"--train-only=fcc."}, "cannot train only 'fcc.': no weight's name begins with it.");
  ends({"--result", (folder / "no/r.json").string()}, "no/r.json");
}

TEST_CASE("a loss that explodes ends the run on all ranks, by one sentence, and leaves no snapshot of it",
          "[stories]") {
  const TempFolder folder;
  run_ranks(2, {"1", "--snapshot", folder / "s.pt"});
  for (const char* saves : {"--save-steps=0", "--save-steps=1"}) {
    Ranks ranks(2, train_with({"5", "--lr=1e30", saves, "--snapshot", folder / "s.pt"}));
    CHECK_THAT(ranks.wait_all_refused(), Contains("training ends at step ") && Contains("--skip-bad-losses"));
    if (std::string(saves) == "--save-steps=0")
      CHECK(python_says(
                "print(torch.load(sys.argv[1], weights_only=True)['EPOCHS_RUN'], all(tensor.isfinite().all().item() "
                "for tensor in torch.load(sys.argv[1], weights_only=True)['MODEL_STATE'].values()))",
                {folder / "s.pt"}) == "1 True\n");
  }
}

TEST_CASE("steps whose losses are not finite are left out, and a run with such steps is saved and resumed",
          "[stories]") {
  const TempFolder folder;
  const Words settings{"--lr=1e30", "--skip-bad-losses=1000", "--save-steps=5", "--snapshot", folder / "s.pt"};
  const Ended end = run_ranks(2, with({"1"}, settings));
  CHECK_THAT(end.out, Contains("done: 1 epoch,") && !Contains("loss nan") && !Contains("loss -nan"));
  CHECK_THAT(run_ranks(2, with({"2"}, settings)).out, Contains("resuming from "));
}

TEST_CASE("ranks that were started with different settings or data say so, and none waits", "[stories]") {
  const TempFolder folder;
  make_mnist(folder / "data0", 40, 10, 1);
  make_mnist(folder / "data1", 50, 10, 1);
  const auto ends = [&](const Words& words, int code, const std::string& sentence) {
    const std::string meeting = folder / ("meeting" + std::to_string(sentence.size()));
    Ranks ranks = two_by_hand("file://" + meeting, with({"1", "--snapshot", folder / "s.pt"}, words));
    CHECK_THAT(ranks.wait_all_refused(code), Contains(sentence));
  };
  ends({"--batch-size=1{rank}"}, 2,
       "the ranks have different settings: rank 1 has data.batch_size = 11 and rank 0 has 10. Start all of "
       "them with the same settings.");
  ends({"--dataset=mnist", "--data", folder / "data{rank}"}, 1,
       "rank 1 has 50 samples to train on and 10 to test on, and rank 0 has 40 and 10.");
}

TEST_CASE("snapshots are written at the steps that are asked for, and of the best epoch, whatever ends with them",
          "[stories]") {
  const TempFolder folder;
  const auto saved = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder.path()))
      count += entry.path().filename().string().starts_with("s-g");
    return count;
  };
  // 10 steps an epoch: each tenth is an epoch's last one.
  run_ranks(1, {"4", "4", "--batch-size=150", "--save-steps=10", "--keep=10", "--snapshot", folder / "s.pt"});
  CHECK(saved() == 3);
  // The tenth epoch alone would be saved, and the best one is kept all the same.
  run_ranks(1, {"10", "10", "--best=accuracy", "--patience=10", "--lr=0.3", "--snapshot", folder / "b.pt", "--result",
                folder / "r.json"});
  CHECK(python_says("print(torch.load(sys.argv[1], weights_only=True)['EPOCHS_RUN'])", {folder / "b-best.pt"}) ==
        json_in(folder / "r.json")["best"]["epoch"].dump() + "\n");
  Ranks other(1, train_with({"12", "--best=loss", "--snapshot", folder / "b.pt"}));
  CHECK_THAT(other[0].wait_exit(kLimit).err,
             Contains("cannot keep the best snapshot by loss: this run keeps it by accuracy."));
}

TEST_CASE("a schedule by steps goes on from the same share of the run where an epoch has other steps", "[stories]") {
  const TempFolder folder;
  const Words settings{"--schedule=cosine", "--schedule-unit=step", "--log-every=1", "--metrics",
                       folder / "m.jsonl",  "--snapshot",           folder / "s.pt"};
  run_ranks(1, with({"4", "--batch-size=50"}, settings));
  // Half way of eight epochs, with a third of the steps.
  const Ended end = run_ranks(2, with({"8", "--batch-size=75"}, settings));
  CHECK_THAT(
      end.out,
      Contains("going on with settings that differ from the snapshot's: ranks 1 -> 2, data.batch_size 50 -> 75\n"));
  std::vector<double> rates;
  for (const auto& row : rows_in(folder / "m.jsonl"))
    if (row["epoch"] > 4 && row.contains("lr")) rates.push_back(row["lr"]);
  REQUIRE(rates.size() == 40);
  CHECK(rates.front() < 0.026);  // half of 0.05, but a little
  CHECK(rates.front() > 0.023);
  CHECK(std::is_sorted(rates.rbegin(), rates.rend()));
  CHECK(rates.back() < 0.0005);
}

TEST_CASE("more than one SIGTERM ends a rank that waits for one that does not answer", "[stories]") {
  const TempFolder folder;
  Ranks ranks =
      two_by_hand("file://" + (folder / "meeting").string(), {"1000", "--log-every=1", "--snapshot", folder / "s.pt"});
  ranks[0].wait_for_output("^epoch 1 step 5 ", kLimit);
  ranks[1].kill(SIGSTOP);
  CHECK(eventually(
      [&] {
        if (!ranks[0].ended()) ranks[0].kill(SIGTERM);
        return ranks[0].ended();
      },
      kLimit));
  CHECK(ranks[0].wait_exit(kLimit) == killed_by(SIGTERM));
  ranks[1].kill(SIGKILL);
}

TEST_CASE(
    "a run on shards that is killed and resumed ends with an undisturbed run's weights: optimizer, schedule and "
    "loader go on",
    "[stories]") {
  const TempFolder folder;
  make_cifar10_python(folder / "data/cifar-10-batches-py", 96, 20, 1);
  const Ended made =
      run({program("train"), "shards", folder / "data", folder / "shards", "--shard-size=40000"}, kLimit, kOneThread);
  CHECK(made == exited(0));
  CHECK_THAT(made.out, Contains("has 96 images to train on and 20 to test on"));
  const auto in = [&](const std::string& file, const std::string& epochs = "2") {
    return with(
        {epochs, "--data", folder / "shards", "--snapshot", folder / file},
        split("--dataset=shards --batch-size=4 --augment --normalise --workers=2 --log-every=1 --optimizer=adamw "
              "--schedule=cosine --warmup=5 --schedule-unit=step --clip-norm=1"));
  };
  const Words undisturbed = epoch_lines(run_ranks(2, in("undisturbed.pt")).out);
  CHECK(undisturbed.size() == 2 * (12 + 1));
  Command job(job_of_two(with({"--save-steps=3"}, in("killed.pt"))), kOneThread);
  const pid_t victim = job.wait_for_process("RANK", "1", kLimit);
  job.wait_for_output("^epoch 1 step 8 ", kLimit);
  kill(victim, SIGKILL);
  const Ended end = job.wait_exit(kLimit);
  CHECK(end == exited(0));
  CHECK_THAT(end.out, Contains("epochs done, and ") && Contains(" % of the next"));
  const Words after = epoch_lines(end.out.substr(std::min(end.out.rfind("resuming from "), end.out.size())));
  REQUIRE(!after.empty());
  CHECK(after == from_line(undisturbed, after.front().substr(0, after.front().find(" loss"))));
  CHECK(python_says(kEqualWeights, {folder / "undisturbed.pt", folder / "killed.pt"}) ==
        python_says(kEqualWeights, {folder / "undisturbed.pt", folder / "undisturbed.pt"}));
  CHECK_THAT(run_ranks(1, in("killed.pt", "3")).out,
             Contains("2 of 3 epochs done") && Contains("differ from the snapshot's: ranks 2 -> 1\n"));
}

TEST_CASE("each rank's part of an evaluation is told with --verbose, on rank 0's wish alone", "[stories]") {
  const TempFolder folder;
  folder.write("0.toml", "[logging]\nverbose = true\nevery = 20\n");
  folder.write("1.toml", "");
  const Ended end = run_ranks(2, {"1", "--config", folder / "{rank}.toml", "--snapshot", folder / "s.pt"});
  std::smatch match;
  REQUIRE(std::regex_search(
      end.out, match,
      std::regex("\nrank 0: n_correct ([0-9]+) of n_obs 149, rank 1: n_correct ([0-9]+) of n_obs 148\n"
                 "epoch 1 of 1: .* \\(([0-9]+) of 297\\)")));
  CHECK(std::stoi(match[1]) + std::stoi(match[2]) == std::stoi(match[3]));
}

TEST_CASE("a rank's own buffers stay its own with --no-broadcast-buffers, and change no weight", "[stories]") {
  const TempFolder folder;
  make_mnist(folder / "mnist", 64, 16, 1);
  const Words settings{"2", "--dataset=mnist", "--data", folder / "mnist", "--log-every=1", "--batch-size=8"};
  const auto run_of = [&](const std::string& name, const Words& more) {
    const Words files{"--snapshot", folder / (name + ".pt"), "--metrics", folder / (name + ".jsonl")};
    return epoch_lines(run_ranks(2, with(with(settings, files), more)).out);
  };
  const Words usual = run_of("a", {}), own = run_of("b", {"--no-broadcast-buffers"});
  const auto test_loss = [&](const std::string& file) {
    return rows_in(folder / file).back()["test_loss"].get<double>();
  };
  CHECK(test_loss("a.jsonl") != test_loss("b.jsonl"));  // by rank 1's statistics
  CHECK(Words(usual.begin(), usual.begin() + 4) == Words(own.begin(), own.begin() + 4));
  CHECK(python_says(kEqualWeights, {folder / "a.pt", folder / "b.pt"}) ==
        python_says(kEqualWeights, {folder / "a.pt", folder / "a.pt"}));
  CHECK(run_of("c", {"--shuffle-seed=5"})[1] != usual[1]);
  CHECK(run_of("d", {"--shuffle-seed=0"}) == usual);
}
