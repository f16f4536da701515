// `train` by its numbers: whatever happens on the way, a run ends with the weights that Python's DDP and an undisturbed
// run end with.
#include "agent/channel/channel_page.h"
#include "tests/support/test.h"
#include "tests/trainer/ranks.h"
#include "tests/trainer/snapshot_compare.h"

namespace {

double last_accuracy(const std::string& text) {
  std::smatch match;
  REQUIRE(std::regex_search(text, match, std::regex("done: .* accuracy ([0-9.]+)[ ,]")));
  return std::stod(match[1]);
}

// The run that every other one of the same size is held against.
Snapshot undisturbed(const TempFolder& folder, int ranks, const std::string& epochs, const std::string& batch_size) {
  const std::string path = folder / "undisturbed.pt";
  run_ranks(ranks, {epochs, "--snapshot", path, "--batch-size", batch_size});
  return load_snapshot(path);
}

// One epoch, then the rest in other processes.
void check_resume(int ranks, const std::string& batch_size) {
  INFO(ranks << " ranks, batches of " << batch_size);
  const TempFolder folder;
  const std::string path = folder / "resumed.pt";
  run_ranks(ranks, {"1", "--snapshot", path, "--batch-size", batch_size});
  const Ended end = run_ranks(ranks, {"3", "--snapshot", path, "--batch-size", batch_size});
  CHECK_THAT(end.out, Contains("resuming from " + path + ": 1 of 3 epochs done"));
  CHECK(differences(undisturbed(folder, ranks, "3", batch_size), load_snapshot(path)) == "");
}

bool all_contiguous(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().is_contiguous();
  if (!value.isGenericDict()) return true;
  for (const auto& item : value.toGenericDict())
    if (!all_contiguous(item.value())) return false;
  return true;
}

}  // namespace

// 38 samples a step make 20 steps of an epoch on two ranks.
TEST_CASE("losses and weights equal Python DDP's bit for bit, from the same weights and the same order", "[train]") {
  const TempFolder folder;
  const Words settings = split("--batch-size=38 --threads=1 --log-every=1");
  const Words python{venv_python(), source_folder() + "/tests/trainer/python_ddp.py", "10", "--weights-after=20"};
  const Words files{"--snapshot",       folder / "python.pt", "--init-to",
                    folder / "init.pt", "--weights",          folder / "python20.pt"};
  const Ended theirs = Ranks(2, with(with(python, files), settings)).wait_all_good();
  // The seed is another one than Python's for the weights, so that --init is what makes them equal; the order's seed is
  // the same.
  const auto our_run = [&](const std::string& epochs) {
    return run_ranks(2, with({epochs, "--snapshot", folder / "ours.pt", "--init", folder / "init.pt"}, settings));
  };
  const Ended first = our_run("1");
  const auto our_lines = step_lines(first.out);
  auto their_lines = step_lines(theirs.out);
  REQUIRE(our_lines.size() == 20);
  const Words rest_of_theirs(their_lines.begin() + 20, their_lines.end());
  their_lines.resize(20);
  CHECK(our_lines == their_lines);
  Snapshot python20 = load_snapshot(folder / "ours.pt");
  python20.model_state = decode_weights(read_file(folder / "python20.pt"), "python20.pt");
  CHECK(differences(load_snapshot(folder / "ours.pt"), python20) == "");

  // And on to the end, by a resume: more than is promised.
  const Ended rest = our_run("10");
  CHECK(step_lines(rest.out) == rest_of_theirs);
  const Snapshot python_end = load_snapshot(folder / "python.pt");
  Snapshot our_end = load_snapshot(folder / "ours.pt");
  Snapshot expected = our_end;
  expected.model_state = python_end.model_state;
  expected.optimizer_state = our_end.optimizer_state->copy();  // its settings Python writes in other number types
  expected.optimizer_state->insert_or_assign("state", python_end.optimizer_state->at("state"));
  CHECK(differences(our_end, expected) == "");
  CHECK(std::abs(last_accuracy(rest.out) - last_accuracy(theirs.out)) <= 0.01);
}

// The figure itself depends on the processor: PyTorch's kernels round in another order on each.
TEST_CASE("the program as it is started knows the digits many times better than by guessing", "[train]") {
  const TempFolder folder;
  CHECK(last_accuracy(run_ranks(2, {"--snapshot", folder / "snapshot.pt"}).out) >= 0.5);
}

TEST_CASE("a run stopped and resumed ends with the bits of an undisturbed one, at 1, 2 and 4 ranks", "[train]") {
  check_resume(1, "100");
  check_resume(2, "100");
  check_resume(4, "32");
  check_resume(4, "400");  // an epoch of one step: buckets are not yet in their last order when the snapshot is written
}

TEST_CASE("fused and with the channels last a resumed run has an undisturbed one's bits, and plain files", "[train]") {
  for (const char* optimizer : {"--optimizer=adam", "--optimizer=sgd"}) {
    INFO(optimizer);
    const TempFolder folder;
    const std::string whole = folder / "whole.pt", parts = folder / "parts.pt";
    const auto train = [&](const std::string& epochs, const std::string& path) {
      run_ranks(2, {epochs, "--snapshot", path, optimizer, "--fused", "--channels-last", "--batch-size=64"});
    };
    train("2", whole);
    train("1", parts);
    train("2", parts);
    const Snapshot undisturbed = load_snapshot(whole);
    CHECK(differences(undisturbed, load_snapshot(parts)) == "");
    CHECK(all_contiguous(undisturbed.model_state));
    CHECK(all_contiguous(*undisturbed.optimizer_state));
  }
}

// Each way of training rounds otherwise; a weight or a state in the wrong place would change the losses by far more.
TEST_CASE("a run goes on from a snapshot with other memory formats and ways to step", "[train]") {
  constexpr double kRounding = 1e-3;
  const std::vector<Words> ways{{}, {"--fused"}, {"--channels-last"}, {"--fused", "--channels-last"}};
  const TempFolder folder;
  const auto train = [&](const std::string& epochs, const std::string& path, const Words& way) {
    return losses_in(
        run_alone(with({epochs, "--snapshot", path, "--optimizer=adam", "--batch-size=64", "--log-every=1"}, way)).out);
  };
  for (const auto& first : {ways[0], ways[3]}) {
    const std::string path = folder / "snapshot.pt";
    fs::remove_all(path);
    train("1", path, first);
    std::vector<double> expected;
    for (const auto& way : ways) {
      const std::string copy = folder / "copy.pt";
      fs::copy_file(path, copy, fs::copy_options::overwrite_existing);
      const std::vector<double> losses = train("2", copy, way);
      if (expected.empty()) expected = losses;
      REQUIRE(losses.size() == 24);
      for (std::size_t i = 0; i < losses.size(); ++i) CHECK(std::abs(losses[i] / expected[i] - 1) < kRounding);
    }
  }
}

TEST_CASE("a rank killed in the middle of an epoch ends the others at once, and the restart ends with the same bits",
          "[train]") {
  const TempFolder folder;
  // 188 steps an epoch: one that is seen is not the last one.
  const Words arguments{"3", "--log-every=1", "--batch-size=4", "--snapshot", folder / "killed.pt"};
  Ranks first(2, train_with(arguments), {{"TORCHELASTIC_RUN_ID", "test"}});
  first[0].wait_for_output("^epoch 2 step 3 ", 120s);
  first[1].kill(SIGKILL);
  const Ended first_exit = first[0].wait_exit(60s);
  CHECK(first_exit == exited(1));
  CHECK(first_exit.err == "");  // the launcher says who failed first
  run_ranks(2, arguments);
  CHECK(differences(undisturbed(folder, 2, "3", "4"), load_snapshot(folder / "killed.pt")) == "");
}

TEST_CASE("a snapshot that Python wrote is gone on from, on every rank", "[train]") {
  const TempFolder folder;
  const std::string path = folder / "snapshot.pt";
  run_ranks(2, {"1", "--snapshot", path});
  const std::string as_the_tutorial =
      "import sys, torch; s = torch.load(sys.argv[1], weights_only=True); "
      "torch.save({'MODEL_STATE': s['MODEL_STATE'], 'EPOCHS_RUN': s['EPOCHS_RUN']}, sys.argv[1])";
  REQUIRE(test::run({venv_python(), "-c", as_the_tutorial, path}, 60s) == exited(0));
  const Ended end = run_ranks(2, {"2", "--snapshot", path});
  CHECK_THAT(end.out, Contains("1 of 2 epochs done"));
  CHECK(load_snapshot(path).at.epochs_run == 2);
}

TEST_CASE("a finished run says so and ends with 0, and --fresh begins anew in the first round only", "[train]") {
  const TempFolder folder;
  const std::string path = folder / "snapshot.pt";
  const Words arguments{"1", "--snapshot", path, "--batch-size=500"};
  CHECK_THAT(run_alone(arguments).out, Contains("done: 1 epoch,"));
  const Ended finished = run_alone(arguments);
  CHECK(finished == exited(0));
  CHECK_THAT(finished.out, Contains("nothing to do: " + path + " has the one epoch."));
  const Words fresh = with(arguments, {"--fresh"});
  const Ended anew = run_alone(fresh);
  CHECK_THAT(anew.err, Contains("now " + path + ".old"));
  CHECK_THAT(anew.out, Contains("done: 1 epoch,"));
  const Ended restarted = test::run(train_with(fresh), 60s, {.env = {{"DDPRUN_ROUND", "2"}}});
  CHECK_THAT(restarted.out, Contains("nothing to do"));
}

TEST_CASE("how many steps there will be is told right when some were done with other batches", "[train]") {
  const TempFolder folder;
  for (const char* arguments : {"1 --batch-size=100", "2 --batch-size=300"}) {
    ChannelPage page = ChannelPage::create(Clock::now());
    const std::string file = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(page.fd());
    const Words shell{"sh", "-c", "exec 9<>" + file + R"(; exec "$@")", "sh"};
    const Words train = train_with(with({"--snapshot", folder / "snapshot.pt"}, split(arguments)));
    CHECK(test::run(with(shell, train), 60s, {.env = {{DDPRUN_CHANNEL_VARIABLE, "9"}}}) == exited(0));
    const Progress progress = page.progress(Clock::now());
    REQUIRE(progress.step);
    CHECK(progress.total_steps == progress.step);
  }
}

TEST_CASE("what cannot work is one sentence and the right exit code", "[train]") {
  const TempFolder folder;
  const std::string snapshot = "--snapshot=" + (folder / "snapshot.pt").string();
  const auto fails = [&](Words arguments, int code, const std::string& sentence) {
    const Ended end = run_alone(std::move(arguments));
    CHECK(end == exited(code));
    CHECK_THAT(end.err, Contains(sentence));
    CHECK(std::count(end.err.begin(), end.err.end(), '\n') == 1);
  };
  fails({"--rabbit=3"}, 2, "--rabbit");
  fails({snapshot, "--data=" + folder.path().string()}, 2, "cannot find the data file");
  fails({snapshot, "--dataset=mnist"}, 2, "cannot find the data set mnist");
  fails({snapshot, "--model=vgg11_bn"}, 2, "cannot build the model vgg11_bn");
  fails({snapshot, "--train-only=fd."}, 2, "cannot train only 'fd.'");
  fails({snapshot, "--init=" + (folder / "none.pt").string()}, 2,
        "cannot read the weights of --init " + (folder / "none.pt").string() + ": there is no such file");
  const std::string file = folder.write("file", "");
  fails({"--snapshot=" + file + "/run.pt"}, 2,
        "cannot make the folder " + file + ": Not a directory. Name another place with --snapshot.");
  const Ended env = test::run(train_with({}), 60s, {.env = {{"RANK", "2"}, {"WORLD_SIZE", "2"}}});
  CHECK(env == exited(2));
  CHECK_THAT(env.err, Contains("RANK is 2 but WORLD_SIZE is 2"));
}

TEST_CASE("what every rank finds is said once, and a usage error is not tried again", "[train]") {
  const TempFolder folder;
  const auto count_reports = [&](const std::string& argument, int code, const std::string& sentence) {
    const Ended end = test::run(under_ddprun({"--nproc_per_node=3"}, train_with({argument})), 60s,
                                {.env = kOneThread.env, .cwd = folder.path()});
    CHECK(end == exited(code));
    int lines = 0;
    std::istringstream text(end.err);
    for (std::string line; std::getline(text, line);)
      lines += line.find(sentence) != std::string::npos && !line.starts_with("    | ");  // as the report quotes it
    INFO(end.err);
    return lines;
  };
  CHECK(count_reports("--rabbit=3", 93, "--rabbit") <= 1);
  CHECK(count_reports("--model=resnet8", 93, "Did you mean 'resnet18'?") <= 1);
  folder.write("file", "");
  CHECK(count_reports("--snapshot=file/run.pt", 93, "cannot make the folder file") == 1);
  CHECK(count_reports("--data=none", 93, "there is no folder none") == 1);
}

TEST_CASE("runs of several models in one folder each have their own snapshot", "[train]") {
  const TempFolder folder;
  CommandOptions here = kOneThread;
  here.cwd = folder.path();
  const auto started = [&](const Words& words) {
    return test::run(train_with(with({"--batch-size=500"}, words)), 60s, here);
  };
  CHECK(started({"1"}) == exited(0));
  CHECK(started({"1", "--model=linear"}) == exited(0));
  CHECK_THAT(started({"2"}).out, StartsWith("resuming from snapshot-convnet-digits.pt: 1 of 2"));
  CHECK_THAT(started({"2", "--model=linear"}).out, StartsWith("resuming from snapshot-linear-toy.pt: 1 of 2"));
}

TEST_CASE("a snapshot of another model is refused once, by what it is of, and stays as it is", "[train]") {
  const TempFolder folder;
  CommandOptions here = kOneThread;
  here.cwd = folder.path();
  const auto started = [&](const Words& words) {
    return test::run(
        under_ddprun({"--nproc_per_node=2"}, train_with(with({"--snapshot=a.pt", "--batch-size=500"}, words))), 60s,
        here);
  };
  REQUIRE(started({"1"}) == exited(0));
  const std::string before = read_file(folder / "a.pt");
  const auto refused = [&](const Words& words, const std::string& why) {
    const Ended end = started(words);
    CHECK(end == exited(93));
    INFO(end.err);
    CHECK(count(end.err, "train: cannot go on from a.pt: it is of convnet on digits" + why) == 1);
    CHECK(count(end.err, "--snapshot OTHER.pt") == 1);
    CHECK(count(end.err, "--fresh, which keeps this one as a.pt.old.") == 1);
    CHECK(read_file(folder / "a.pt") == before);
  };
  refused({"2", "--model=linear"}, ", and this run is linear on toy. ");
  refused({"2", "--optimizer=adam"}, ", but it is another optimizer's: ");
  CHECK(started({"1", "--model=linear", "--fresh"}) == exited(0));
  CHECK(read_file(folder / "a.pt.old") == before);
}

TEST_CASE("the former default snapshot is gone on from where it fits and is the only one", "[train]") {
  const TempFolder folder;
  CommandOptions here = kOneThread;
  here.cwd = folder.path();
  const auto started = [&](const Words& words) {
    return test::run(under_ddprun({"--nproc_per_node=2"}, train_with(with({"--batch-size=500"}, words))), 60s, here);
  };
  REQUIRE(started({"1", "--snapshot=snapshot.pt"}) == exited(0));
  const std::string before = read_file(folder / "snapshot.pt");
  const std::string going_on = "going on in snapshot.pt, the default of earlier versions";
  for (const Words& other : {Words{"1", "--model=linear"}, Words{"1", "--optimizer=adam"}}) {
    const Ended end = started(other);
    CHECK(end == exited(0));
    CHECK_FALSE(has(end.out, going_on));
    CHECK(read_file(folder / "snapshot.pt") == before);
    fs::remove(folder / "snapshot-convnet-digits.pt");
    fs::remove(folder / "snapshot-convnet-digits.pt.generation");
  }
  const Ended end = started({"2"});
  CHECK_THAT(end.out, StartsWith(going_on) && Contains("\nresuming from snapshot.pt: 1 of 2 epochs done\n"));
  CHECK_FALSE(fs::exists(folder / "snapshot-convnet-digits.pt"));
  REQUIRE(started({"1", "--fresh"}) == exited(0));
  CHECK_THAT(started({"1"}).out, StartsWith("nothing to do: snapshot-convnet-digits.pt"));
}

TEST_CASE("a trained gpt continues a prompt, and refuses one that it does not know", "[train]") {
  const TempFolder folder;
  CommandOptions here = kOneThread;
  here.cwd = folder.path();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "some words ";
  folder.write("my.txt", text);
  const auto started = [&](const Words& words) { return test::run(train_with(words), 60s, here); };
  const Words gpt = split("1 --model=gpt --layers=1 --heads=1 --embedding=8 --context=8 --data=my.txt");
  REQUIRE(started(gpt) == exited(0));
  const auto writes = [&](const Words& words) {
    return test::run(with({train_with({}).front(), "write"}, words), 60s, here);
  };
  const auto written = [&](const std::string& more) {
    return writes(with({"--snapshot=snapshot-gpt-my.pt", "--prompt", "some "}, split(more)));
  };
  const Ended end = written("--length=40 --seed=5");
  CHECK(end == exited(0));
  CHECK(end.out.size() == 5 + 40 + 1);
  CHECK_THAT(end.out, StartsWith("some ") && EndsWith("\n"));
  CHECK(written("--length=40 --seed=5").out == end.out);
  CHECK(written("--length=40 --temperature=0").out == written("--length=40 --temperature=5 --top-k=1").out);
  const auto refused = [&](const Words& words, const std::string& sentence) {
    const Ended refusal = writes(words);
    CHECK(refusal == exited(2));
    CHECK_THAT(refusal.err, StartsWith("train: " + sentence));
    CHECK(count(refusal.err, "\n") == 1);
  };
  refused(
      {"--snapshot=snapshot-gpt-my.pt", "--prompt", "some n\u00e9w"},
      "cannot begin with this prompt: the text that the model was trained on has no 'n' or '\u00e9', only ' demorsw'.");
  refused({},
          "cannot write with the snapshot snapshot-gpt-text.pt: there is no such file. Name one with --snapshot: "
          "there is snapshot-gpt-my.pt.");
  REQUIRE(started({"1", "--batch-size=500"}) == exited(0));
  refused({"--snapshot=snapshot-convnet-digits.pt"},
          "cannot write with the snapshot snapshot-convnet-digits.pt: it is of convnet on digits.");
  refused({"--temperature=-1"}, "--temperature is '-1'; it takes a number from 0 to 100.");
}

TEST_CASE("on a terminal a gpt shows what it writes after each epoch, and its run has the same bits", "[train]") {
  const TempFolder folder;
  CommandOptions here = kOneThread;
  here.cwd = folder.path();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "some words ";
  folder.write("my.txt", text);
  const auto command = [&](const std::string& snapshot) {
    return train_with(
        with(split("2 --model=gpt --layers=1 --heads=1 --embedding=8 --context=8 --dropout=0.1 --data=my.txt"),
             {"--evaluate-every=2", "--snapshot=" + snapshot}));
  };
  const Ended silent = test::run(command("silent.pt"), 60s, here);
  CHECK(silent == exited(0));
  CHECK_FALSE(has(silent.out, "  | "));
  const Words terminal{venv_python(), "-c",
                       "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"};
  const Ended shown = test::run(with(terminal, command("shown.pt")), 60s, here);
  CHECK(shown == exited(0));
  CHECK(count(shown.out, "  | ") == 2);
  CHECK(differences(load_snapshot(folder / "silent.pt"), load_snapshot(folder / "shown.pt")) == "");
}

TEST_CASE("the folder of a snapshot is made by the first run", "[train]") {
  const TempFolder folder;
  const std::string path = folder / "runs/first/run.pt";
  run_ranks(2, {"1", "--snapshot", path, "--batch-size=500"});
  CHECK(load_snapshot(path).at.epochs_run == 1);
}

TEST_CASE("ranks may differ in what rank 0 alone is to write", "[train]") {
  const TempFolder folder;
  folder.write("0.toml", "[snapshot]\npublish = \"" + (folder / "weights.pt").string() + "\"\n[logging]\nresult = \"" +
                             (folder / "result.json").string() + "\"\nmetrics = \"" +
                             (folder / "metrics.jsonl").string() + "\"\nevery = 1\n[evaluation]\npredictions = \"" +
                             (folder / "predictions.csv").string() + "\"\n");
  folder.write("1.toml", "[snapshot]\npublish = \"\"\n[logging]\nevery = 0\n");
  const Words settings{"1", "--config", folder / "{rank}.toml", "--batch-size=500", "--snapshot", folder / "run.pt"};
  run_ranks(2, settings);
  for (const char* name : {"weights.pt", "result.json", "metrics.jsonl", "predictions.csv"})
    CHECK(fs::file_size(folder / name) > 0);
  fs::remove(folder / "weights.pt");
  run_ranks(2, settings);  // nothing to do but that
  CHECK(fs::exists(folder / "weights.pt"));
}

TEST_CASE("ranks that mpirun or srun started are one training", "[train]") {
  const TempFolder folder;
  const auto trained_alike = [&](const std::string& name, const std::string& err) {
    CHECK(count(err, "makes this rank 0 of 2, which meet at 127.0.0.1:") == 1);
    CHECK(differences(undisturbed(folder, 2, "1", "500"), load_snapshot(folder / name)) == "");
  };
  const auto command = [&](const std::string& name) {
    return train_with({"1", "--batch-size=500", "--snapshot", folder / name});
  };
  const std::string job = std::to_string(getpid());
  Ranks step = Ranks::by_hand({0, 1}, with({"env", "SLURM_JOB_ID=" + job, "SLURM_STEP_ID=0", "SLURM_PROCID={rank}",
                                            "SLURM_NTASKS=2", "SLURM_NNODES=1"},
                                           command("step.pt")));
  trained_alike("step.pt", step.wait_all_good().err);
  if (test::run({"sh", "-c", "command -v mpirun"}, 60s).code != 0) {
    WARN("skipped: mpirun is not installed");
    return;
  }
  auto options = kOneThread;
  options.env["OMPI_ALLOW_RUN_AS_ROOT"] = options.env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  const Ended mpi = test::run(with({"mpirun", "--oversubscribe", "-n", "2"}, command("mpi.pt")), 120s, options);
  CHECK(mpi == exited(0));
  CHECK(count(mpi.out, "done: ") == 1);
  trained_alike("mpi.pt", mpi.err);
  const Ended apart = test::run(
      with({"mpirun", "--oversubscribe", "-n", "2", "env", "OMPI_COMM_WORLD_LOCAL_SIZE=1"}, command("apart.pt")), 120s,
      options);
  CHECK(apart == exited(2));
  CHECK_THAT(apart.err, Contains("set MASTER_ADDR for all of them"));
  CHECK_FALSE(fs::exists(folder / "apart.pt"));
}

TEST_CASE("ranks whose lines nobody reads any more end as a rank alone does", "[train]") {
  const TempFolder folder;
  const Words job =
      under_ddprun({"--nproc-per-node=2"}, train_with({"1000000", "1000000", "--snapshot", folder / "run.pt"}));
  const Ended ended =
      test::run(with({"bash", "-c", "\"$@\" | head -n 1; exit ${PIPESTATUS[0]}", "sh"}, job), 120s, kOneThread);
  CHECK(ended == exited(128 + SIGPIPE));
  CHECK(has(ended.err, "ddprun: nobody reads the output any more: the job ends."));
}
