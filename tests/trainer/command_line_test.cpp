#include "trainer/config/command_line.h"

#include "tests/support/test.h"
#include "trainer/config/settings.h"
#include "trainer/config/shards_line.h"
#include "trainer/config/snapshot_path.h"
#include "trainer/config/write_line.h"
#include "trainer/machine/device_choice.h"
#include "trainer/models/model_names.h"
#include "trainer/tour/tour_line.h"
#include "trainer/tour/tours.h"

using settings::Option, settings::Takes;

namespace {

// As if job.toml held `file`.
CommandLine read(Words arguments, const std::string& file = "") {
  return read_command_line(std::move(arguments), [&](const std::string& path) {
    if (path != "job.toml") throw std::runtime_error("No such file or directory");
    return file;
  });
}

Options parsed(Words arguments, const std::string& file = "") {
  const auto result = read(std::move(arguments), file);
  if (result.early_exit) FAIL(result.early_exit->text);
  return result.options;
}

// The settings that these arguments change, as "key=value".
std::string changed_by(Words arguments) {
  const Options options = parsed(std::move(arguments)), standard = parsed({});
  std::string changes;
  for (const Option* row : all_settings())
    if (const std::string value = text_of(*row, options); value != text_of(*row, standard))
      changes += (changes.empty() ? "" : " ") + std::string(row->key) + "=" + value;
  return changes;
}

// What is said of a command line that cannot work.
std::string refused(Words arguments, const std::string& file = "") {
  const auto early_exit = read(std::move(arguments), file).early_exit;
  REQUIRE(early_exit);
  CHECK(early_exit->code == 2);
  return early_exit->text;
}

struct Refused {
  Words arguments;
  std::string sentence;
};

void check_refused(const std::vector<Refused>& rows) {
  for (const auto& [arguments, sentence] : rows) CHECK(refused(arguments) == "train: " + sentence + "\n");
}

RankEnv worker(int local_rank, int local_world_size) {
  RankEnv env;
  env.local_rank = env.rank = local_rank;
  env.local_world_size = env.world_size = local_world_size;
  return env;
}

Gpus sees(int gpus) { return {.count = gpus}; }

std::string refusal(DeviceChoice choice, const Gpus& gpus, const RankEnv& env) {
  return std::get<std::string>(choose_device(choice, gpus, env));
}

}  // namespace

TEST_CASE("train 50 10 means 50 epochs and a snapshot after every tenth", "[command_line]") {
  CHECK(changed_by({"50", "10"}) == "training.epochs=50 snapshot.every_epochs=10");
  CHECK(changed_by({"--fresh", "--", "50", "10"}) == "training.epochs=50 snapshot.every_epochs=10 snapshot.fresh=true");
  CHECK(refused({"--", "50", "10", "9"}) == "train: Unexpected argument '9'; train --help lists what there is.\n");
}

TEST_CASE("options are read, with a space or with =, and switches without a value", "[command_line]") {
  CHECK(changed_by(split("--model resnet18 --dataset=cifar10 --data d --batch-size=5 --lr 0.5 --momentum=0.1 "
                         "--snapshot s --fresh --seed=9223372036854774784 --device cuda --log-every=3 --threads 2 "
                         "--init=w --skip=fc.,x")) ==
        "training.seed=9223372036854774784 data.name=cifar10 data.folder=d data.batch_size=5 model.name=resnet18 "
        "model.init=w model.skip=fc.,x optimizer.lr=0.5 optimizer.momentum=0.1 snapshot.path=s snapshot.fresh=true "
        "logging.every=3 machine.device=cuda machine.threads=2");
}

TEST_CASE("every setting can be written in a file, printed, and read again", "[command_line]") {
  // A value that is not the standard one, for each.
  std::string file, section;
  for (const Option* row : all_settings()) {
    const std::string key = row->key, of = key.substr(0, key.find('.'));
    if (of != section) file += "[" + (section = of) + "]\n";
    const Takes takes = row->member.takes;
    const std::string choices = row->choices;
    std::string text = "0.5";
    if (takes == Takes::flag) text = "true";
    if (takes == Takes::whole_number) text = "4";
    if (takes == Takes::text) text = "\"" + (choices.empty() ? "x" : choices.substr(choices.rfind('|') + 1)) + "\"";
    if (takes == Takes::list) text = "[\"a\", \"b.c\"]";
    if (key == "group.rank") text = "2";
    if (key == "model.init") text = "\"\"";                 // not beside a transfer
    if (key == "training.cudnn_benchmark") text = "false";  // not beside deterministic
    if (key == "training.cuda_graph") text = "false";       // not beside accumulate
    if (key == "model.name") text = "\"resnet18\"";
    if (key == "data.name") text = "\"synthetic\"";
    if (key == "group.init_method") text = "\"tcp://localhost:1\"";
    file += key.substr(of.size() + 1) + " = " + text + "\n";
  }
  // What goes together where everything is set.
  const Words overrides =
      split("--config=job.toml --set=optimizer.name=sgd --set=snapshot.best=loss --set=evaluation.by=loss");
  const Options options = parsed(overrides, file);
  const Options standard = parsed({});
  for (const Option* row : all_settings()) {
    INFO(row->key);
    if (std::string("model.init optimizer.name training.cudnn_benchmark training.cuda_graph").find(row->key) ==
        std::string::npos)
      CHECK(text_of(*row, options) != text_of(*row, standard));
  }
  const auto printed = read(with(overrides, {"--print-config"}), file).early_exit;
  REQUIRE(printed);
  CHECK(printed->code == 0);
  CHECK_THAT(printed->text, Contains("# job.toml:") && Contains("# --set evaluation.by"));
  const Options again = parsed({"--config=job.toml"}, printed->text);
  for (const Option* row : all_settings()) CHECK(text_of(*row, again) == text_of(*row, options));
}

TEST_CASE("what is printed without any file is a file, too", "[command_line]") {
  const auto printed = read({"--print-config"}).early_exit;
  REQUIRE(printed);
  const Options again = parsed({"--config=job.toml"}, printed->text), standard = parsed({});
  for (const Option* row : all_settings()) {
    INFO(row->key);
    CHECK_THAT(printed->text, Contains(std::string(row->key).substr(std::string(row->key).find('.') + 1)));
    CHECK(text_of(*row, again) == text_of(*row, standard));
  }
}

TEST_CASE("a number is printed as TOML can hold it", "[command_line]") {
  const Words words =
      split("--lr=12345678901234567000 --clip-norm=-0.0 --weight-decay=1e-30 --seed=9223372036854774784");
  const auto printed = read(with(words, {"--print-config"})).early_exit;
  REQUIRE(printed);
  const Options again = parsed({"--config=job.toml"}, printed->text), options = parsed(words);
  for (const Option* row : all_settings()) CHECK(text_of(*row, again) == text_of(*row, options));
  CHECK_THAT(refused({"--seed=18446744073709551615"}),
             Contains("--seed is '18446744073709551615'; it takes a whole number from 0 to 9223372036854774784."));
}

TEST_CASE("the command line wins over the file, and --set is the command line", "[command_line]") {
  const std::string file = "[optimizer]\nlr = 1\nmomentum = 0.5\n";
  CHECK(parsed({"--config=job.toml"}, file).optimizer.lr == 1);
  CHECK(parsed({"--config=job.toml", "--lr=2"}, file).optimizer.lr == 2);
  CHECK(parsed({"--set", "optimizer.lr=3", "--config=job.toml"}, file).optimizer.lr == 3);
  CHECK(parsed({"--set", "optimizer.lr=3", "--config=job.toml"}, file).optimizer.momentum == 0.5);
  CHECK_THAT(refused({"--lr=2", "--set", "optimizer.lr=3"}),
             Contains("--set optimizer.lr and --lr set the same value: leave out one of them."));
}

TEST_CASE("what has no effect is refused on the command line, and left alone in a file", "[command_line]") {
  check_refused({{{"--heads=2"}, "--heads is for the model gpt only: leave it out."},
                 {{"--optimizer=adam", "--momentum=0.5"}, "--momentum is for the optimizer sgd only: leave it out."}});
  CHECK_THAT(refused({"--set=data.width=9"}), Contains("--set data.width is for the data synthetic only"));
  CHECK_THAT(refused({"--set=training.init_scale=2"}), Contains("for --precision fp16 only"));
  CHECK_THAT(refused({"--set=schedule.min_lr=0"}), Contains("for the schedules cosine and linear only"));
  CHECK(parsed({"--model=gpt", "--heads=2"}).model.heads == 2);
  CHECK(parsed({"--config=job.toml"}, "[model]\nheads = 2\n").model.heads == 2);
}

TEST_CASE("a switch can be taken back, and takes no word that follows it", "[command_line]") {
  const std::string file = "[snapshot]\nfresh = true\n";
  CHECK(parsed({"--config=job.toml"}, file).snapshot.fresh);
  CHECK(!parsed({"--config=job.toml", "--fresh=false"}, file).snapshot.fresh);
  CHECK(changed_by({"--fresh", "50"}) == "training.epochs=50 snapshot.fresh=true");
}

TEST_CASE("??? in a file must be given", "[command_line]") {
  const std::string file = "[training]\nepochs = \"???\"\n[optimizer]\nlr = \"???\"\n";
  CHECK(refused({"--config=job.toml"}, file) ==
        "train: job.toml:2: training.epochs is ???, a value that must be given: pass the word total_epochs or --set "
        "training.epochs=VALUE.\n");
  CHECK(refused({"--config=job.toml", "7"}, file) ==
        "train: job.toml:4: optimizer.lr is ???, a value that must be given: pass --lr=X or --set "
        "optimizer.lr=VALUE.\n");
  CHECK(parsed({"--config=job.toml", "7", "--set=optimizer.lr=0.5"}, file).training.epochs == 7);
}

TEST_CASE("a file that cannot be used is told line by line", "[command_line]") {
  const auto says = [](const std::string& file, const std::string& sentence) {
    CHECK_THAT(refused({"--config=job.toml"}, file), Contains("train: job.toml:" + sentence));
  };
  says("[optimizer]\nlr = \"fast\"\n", "2: optimizer.lr is 'fast'; it takes a number above 0.");
  says("[training]\nepochs = 1.5\n", "2: training.epochs is '1.5'; it takes a whole number from 1 up.");
  says("[optimizer]\nnesterov = 3\n", "2: optimizer.nesterov is '3'; it takes 1 or 0, true or false, yes or no.");
  says("[model]\nskip = [\"fc.\", true]\n", "2: model.skip holds true; it takes strings or numbers.");
  says("[model]\nskip = [\"a,b\"]\n", "2: model.skip holds the string 'a,b', and a comma separates two values: ");
  says("[optimizer]\nlr = [1]\n", "2: optimizer.lr is an array; it takes a string or a number.");
  says("[optimizer]\nlr = 1\n'optimizer.lr' = 2\n",
       "3: there is no key optimizer.optimizer.lr. Did you mean 'optimizer.lr'?");
  says("[optimizer]\nlrr = 1\n", "2: there is no key optimizer.lrr. Did you mean 'optimizer.lr'?");
  says("[training]\nlr = 1\n", "2: there is no key training.lr. Did you mean 'optimizer.lr'?");
  says("lr = 1\n", "1: there is no key lr. Did you mean 'optimizer.lr'?");
  says("help = true\n", "1: help cannot be set in a file; pass --help on the command line.");
  says("[optimizer]\nlr = \n", "2: 'lr = ' is not valid TOML: ");
  says("[model]\nname = \"resnet\"\n",
       "2: model.name is 'resnet'; it takes convnet, vgg11_bn, resnet18, resnet34, resnet50, resnet101, resnet152, "
       "linear or gpt. Did you mean 'resnet18'?");
  says("[data]\nbatch_size = 0\n", "2: data.batch_size is '0'; it takes a whole number from 1 up.");
  CHECK_THAT(refused({"--config=none.toml"}),
             Contains("cannot read the configuration none.toml: No such file or directory."));
}

TEST_CASE("a file in YAML is refused with the line that converts it, which prints the TOML", "[command_line]") {
  const std::string yaml = R"(---
# a run
epochs: 20          # and a comment
lr: 1e-3
trainer:
  seed: 7
  amp: true
  precision_of_the_moon: 4
optimizer:
  name: 'adamw'
  weight_decay: 0.1
model:
  skip:
    - fc.
    - "head#1"
  train_only: [a, b]
data: {name: mnist}
workers: .5
fresh: on
gpus: 2
best: null
notes: |
  free text
)";
  const auto answer = [&](const Words& words) {
    return read_command_line(words, [&](const std::string&) { return yaml; }).early_exit.value();
  };
  const EarlyExit refusal = answer({"--config", "my conf/run.yaml", "lr=1"});
  CHECK(refusal.code == 2);
  CHECK(refusal.text ==
        "train: my conf/run.yaml is YAML, and only TOML is read. This converts it: train --config 'my conf/run.yaml' "
        "--print-config > 'my conf/run.toml'\n");
  const std::string toml = R"([training]
epochs = 20
precision = "fp16"
seed = 7

[data]
workers = ".5"

[model]
skip = ["fc.", "head#1"]
train_only = ["a", "b"]

[optimizer]
name = "adamw"
lr = 0.001
weight_decay = 0.1

[snapshot]
fresh = true
# line 8 is left out: trainer.precision_of_the_moon is no key
# line 17 is left out: the value of data is not a plain one
# line 20 is left out: gpus is given to the launcher, which starts a worker for each GPU: ddprun --nproc_per_node=N train.
# lines 22 to 23 are left out: notes is no key
)";
  const EarlyExit converted = answer({"--config", "my conf/run.yaml", "--print-config"});
  CHECK(converted.code == 0);
  CHECK(converted.text == toml);
  CHECK(refused({"--config=job.toml"}, toml) ==
        "train: job.toml:7: data.workers is '.5'; it takes a whole number from 0 to 256.\n");
  CHECK_THAT(refused({"--config=none.yml"}), Contains("cannot read the configuration none.yml: No such file"));
}

TEST_CASE("a line of YAML that TOML cannot have is a comment, with all lines that belong to it", "[command_line]") {
  const auto toml = [](const std::string& yaml) {
    return read_command_line({"--config=a.yml", "--print-config"}, [&](const std::string&) { return yaml; })
        .early_exit.value()
        .text;
  };
  // What is below is not read as settings.
  CHECK(toml("notes: |\n  lr: 1\n\n  seed: 3\nseed: 4\n") ==
        "[training]\nseed = 4\n# lines 1 to 4 are left out: notes is no key\n");
  CHECK(toml("steps:\n- lr: 1\n  seed: 3\n- seed: 5\nseed: 4\n") ==
        "[training]\nseed = 4\n# lines 1 to 4 are left out: steps is no key\n");
  CHECK(toml("- lr: 1\n  seed: 3\n") == "# lines 1 to 2 are left out: it is not 'key: value'\n");
  CHECK(toml("data: /a\n  seed: 3\n") == "# lines 1 to 2 are left out: the value of data is not a plain one\n");
  CHECK(toml("seed: 3\nmanual_seed: 4\n") ==
        "[training]\nseed = 3\n# line 2 is left out: training.seed is set above\n");
  CHECK(toml("fp16: false\nbf16: true\n") == "[training]\nprecision = \"bf16\"\n");
  CHECK(toml("fp16: auto\n") == "# line 1 is left out: fp16 is 'auto', and training.precision has no value for that\n");
  CHECK(toml("seed: 3\r\ndata_dir: x\r\n") == "[training]\nseed = 3\n\n[data]\nfolder = \"x\"\n");
  CHECK(toml("data_dir: /data/o'brien   # x\n") == "[data]\nfolder = \"/data/o'brien\"\n");
  CHECK(toml("data_dir: 'a # b' # x\n") == "[data]\nfolder = \"a # b\"\n");
  CHECK(toml("skip:\n  - 'a,b'\n  - c\n") == "# lines 1 to 3 are left out: the value of skip is not a plain one\n");
}

TEST_CASE("a key of 200,000 parts in a file is told, never a crash", "[command_line]") {
  std::string key = "a";
  for (int i = 1; i < 200'000; ++i) key += ".a";
  CHECK_THAT(refused({"--config=job.toml"}, key + " = 1\n"), Contains("job.toml:1: ") && Contains("more than 8 parts"));
}

TEST_CASE("the help of train and of its verbs has 80 columns", "[command_line]") {
  const std::pair<const char*, std::string> all[] = {
      {"usage: train [total_epochs] [save_every] [options] [key=value ...]\n", read({"--help"}).early_exit->text},
      {"usage: train tour [NAME] [options]\n", read_tour_line({"--help"}).early_exit->text},
      {"usage: train tour [NAME] [options]\n", read_tour_line({}).early_exit->text},
      {"usage: train shards FROM TO [options]\n", read_shards_line({"--help"}).early_exit->text},
      {"usage: train write [options]\n", read_write_line({"--help"}).early_exit->text}};
  for (const auto& [usage, text] : all) {
    CHECK_THAT(text, StartsWith(usage) && Contains("\n  -h, --help               print"));
    for (const std::string& line : lines_of(text)) {
      INFO(line);
      CHECK(line.size() <= 80);
    }
  }
  CHECK_THAT(all[3].second, Contains("\n  --shard-size SIZE        size of a shard, such as 64M (default 16M)\n"));
  CHECK_THAT(all[1].second, Contains("\n  -b, --batch-size N       with sampler: how many of them a rank takes in a\n"
                                     "                           step (default 2)\n"));
}

TEST_CASE("option --help names every option and leaves with 0", "[command_line]") {
  const auto help = read({"--help"}).early_exit;
  REQUIRE(help);
  CHECK(help->code == 0);
  for (const Option* row : all_settings()) CHECK_THAT(help->text, Contains(row->name));
  for (const ModelName& model : model_names()) CHECK_THAT(help->text, Contains(std::string("\n  ") + model.name + " "));
  CHECK_THAT(help->text, Contains("--config") && Contains("--set") && Contains("--print-config"));
}

TEST_CASE("option --version of train answers, also beside a mistake", "[command_line]") {
  const auto version = read({"--version", "--rabbit"}).early_exit;
  REQUIRE(version);
  CHECK(version->code == 0);
  CHECK(version->text == "train " + project_version() + " (commit unknown)\n");
  CHECK(read_command_line({"--version"}, {}, {}, "abc1234").early_exit->text ==
        "train " + project_version() + " (commit abc1234)\n");
  CHECK(read({"-V"}).early_exit->text == version->text);
}

TEST_CASE("ranks may differ in what rank 0 alone prints or writes, and in what belongs to a machine",
          "[command_line]") {
  std::string keys;
  for (const Option* row : all_settings())
    if (may_differ_between_ranks(row->key)) keys += std::string(row->key) + " ";
  CHECK(
      keys ==
      "data.folder data.workers model.init model.transfer snapshot.path snapshot.publish evaluation.predictions "
      "logging.every logging.verbose logging.metrics logging.tensorboard logging.result machine.device machine.threads "
      "group.init_method group.rank ");
}

TEST_CASE("a command line that cannot be read leaves with 2 and a sentence", "[command_line]") {
  const std::vector<std::vector<std::string>> lines{{"--rabbit=3"}, {"1", "2", "3"}};
  for (const auto& line : lines) CHECK_THAT(refused(line), Contains("train: ") && Contains("train --help"));
  const std::string folder = "The folder of a data set is named with --data.";
  check_refused({
      {{"--optimzer=adam"}, "there is no option --optimzer. Did you mean '--optimizer'?"},
      {{"--lr"}, "--lr needs a value: --lr=X."},
      {{"--epoch", "3"}, "there is no option --epoch. Did you mean '--epochs'?"},
      {{"--init_scale=3"}, "there is no option --init_scale. Did you mean '--set training.init_scale=X'?"},
      {{"-a", "resnet18", "data/cifar"}, "total_epochs is 'data/cifar'; it takes a whole number from 1 up. " + folder},
      {{"--lr=1", "--lr=2"}, "--lr is given twice: leave out one of them."},
      {{"--fresh=maybe"}, "--fresh is 'maybe'; it takes 1 or 0, true or false, yes or no."},
      {{"1", "./MNIST"}, "save_every is './MNIST'; it takes a whole number from 1 up. " + folder},
      {{"ten"}, "total_epochs is 'ten'; it takes a whole number from 1 up."},
      {{"--device=quantum"}, "--device is 'quantum'; it takes auto, cpu or cuda."},
      {{"--float32-matmul=higest"},
       "--float32-matmul is 'higest'; it takes highest, high or medium. Did you mean 'highest'?"},
      {{"--set", "lr"}, "--set lr has no value: write --set lr=VALUE."},
      {{"--set", "lr=1"}, "--set lr: there is no key lr. Did you mean 'optimizer.lr'?"},
      {{"--seed=99999999999999999999"},
       "--seed is '99999999999999999999'; it takes a whole number from 0 to 9223372036854774784."},
  });
}

TEST_CASE("the command lines of PyTorch's examples are understood", "[command_line]") {
  // distributed/ddp-tutorial-series
  CHECK(changed_by(split("50 10 --batch_size 64")) == "training.epochs=50 data.batch_size=64 snapshot.every_epochs=10");
  CHECK(changed_by(split("--total_epochs 50 --save_every=10")) == "training.epochs=50 snapshot.every_epochs=10");
  // mnist
  CHECK(changed_by(split("--batch-size=64 --epochs=14 --lr=1 --gamma=0.7 --schedule=step --no-cuda --seed=1 "
                         "--log-interval 10 --step-size 1")) ==
        "training.epochs=14 training.seed=1 data.batch_size=64 optimizer.lr=1 schedule.name=step schedule.step_size=1 "
        "schedule.gamma=0.7 logging.every=10 machine.device=cpu");
  // imagenet
  CHECK(changed_by(split("-a resnet18 -j4 -b 256 --learning-rate=0.1 --wd=1e-4 -p=10 --resume c.pt "
                         "--dist-url=tcp://10.0.0.1:29500 --rank=0 --world-size=1 --dummy")) ==
        "data.name=synthetic data.batch_size=256 data.workers=4 model.name=resnet18 optimizer.lr=0.1 "
        "optimizer.weight_decay=1e-04 snapshot.path=c.pt logging.every=10 group.init_method=tcp://10.0.0.1:29500 "
        "group.rank=0 group.world_size=1");
  CHECK(parsed({"--amp=false", "--no-cuda=0"}).training.precision == "float");
  CHECK(parsed({"--evaluate", "5"}).evaluation.every == 5);
  // What is wrong is told by the name that was typed.
  check_refused({
      {{"--epochs=ten"}, "--epochs is 'ten'; it takes a whole number from 1 up."},
      {{"--amp=maybe"}, "--amp is 'maybe'; it takes 1 or 0, true or false, yes or no."},
      {{"--lr=1", "--learning-rate=1"}, "--learning-rate and --lr set the same value: leave out one of them."},
      {{"7", "--epochs=3"}, "--epochs and total_epochs set the same value: leave out one of them."},
      {{"--gamma=0.7"}, "--gamma is for the schedules step and exponential only: leave it out."},
  });
}

TEST_CASE("a flag of another program that is false overrides the file, too", "[command_line]") {
  const std::string file =
      "[training]\nprecision = \"fp16\"\ndeterministic = true\n[model]\nsync_batch_norm = true\n"
      "[machine]\ndevice = \"cuda\"\n";
  const auto with = [&](const std::string& word) { return parsed({"--config=job.toml", word}, file); };
  CHECK(with("--amp=false").training.precision == "float");
  CHECK(with("amp=false").training.precision == "float");
  CHECK(with("bf16=no").training.precision == "float");
  CHECK_FALSE(with("use_deterministic_algorithms=false").training.deterministic);
  CHECK_FALSE(with("sync_batchnorm=false").model.sync_batch_norm);
  CHECK(with("--use-cuda=0").machine.device == "cpu");
  CHECK(with("cuda=false").machine.device == "cpu");
  CHECK(with("--no-cuda=0").machine.device == "auto");
  // Two flags for one setting are no contradiction if only one is true.
  CHECK(parsed({"fp16=false", "bf16=true"}).training.precision == "bf16");
  CHECK(parsed({"fp16=false", "bf16=false"}).training.precision == "float");
  CHECK_THAT(refused({"fp16=true", "bf16=true"}), Contains("set the same value"));
  CHECK_THAT(refused({"--precision=fp16", "amp=false"}), Contains("set the same value"));
  CHECK(refused({"--dummy=false"}) ==
        "train: --dummy is 'false', and data.name has no value for that: leave it out, or set data.name itself.\n");
}

TEST_CASE("names that count epochs of warmup are refused where the schedule counts steps", "[command_line]") {
  CHECK(parsed({"--lr-warmup-epochs=3"}).schedule.warmup == 3);
  CHECK(parsed({"--schedule-unit=step", "--warmup=3"}).schedule.warmup == 3);
  for (const char* word : {"--warmup-epochs=3", "--lr_warmup_epochs=3", "warmup_epochs=3"})
    CHECK_THAT(refused({"--schedule-unit=step", word}),
               Contains("counts epochs, and the schedule counts steps: pass --warmup with their number."));
}

TEST_CASE("no name of another program takes the place of an option's abbreviation", "[command_line]") {
  for (const Option& row : setting_table().options) {
    if (!*row.stands_for && !*row.refusal) continue;
    for (const Option& other : setting_table().options) {
      const bool visible = other.group->kind != settings::Group::hidden && !*other.stands_for && !*other.refusal;
      INFO(row.name << " and " << other.name);
      if (std::string_view(row.name) == "cuda" && std::string_view(other.name) == "cuda-graph") continue;  // the device
      if (visible && std::string(row.stands_for) != other.key)
        CHECK_FALSE((std::string_view(other.name).size() > std::string_view(row.name).size() &&
                     std::string_view(other.name).starts_with(row.name)));
    }
  }
}

TEST_CASE("each name of another program stands for a setting, or has a sentence what to do", "[command_line]") {
  std::size_t others = 0, unsupported = 0;
  for (const Option& row : setting_table().options) {
    INFO(row.name);
    if (*row.stands_for) {
      const Option* target = find_key(setting_table(), row.stands_for);
      REQUIRE(target);
      CHECK(in_file(*target));
      CHECK(row.flag() == (*row.sets != 0));
      if (row.flag()) CHECK(text_of(*target, parsed({std::string("--") + row.name})) == row.sets);
      ++others;
    } else if (*row.refusal) {
      const std::string text = refused({std::string("--") + row.name + (row.flag() ? "" : "=3")});
      CHECK(text == std::string("train: --") + row.name + " " + row.refusal + "\n");
      CHECK_THAT(text, EndsWith(".\n"));
      ++unsupported;
    }
  }
  CHECK(others > 50);
  CHECK(unsupported > 20);
}

TEST_CASE("the default of --snapshot carries model and data, and a text's own name", "[command_line]") {
  const auto path = [](const std::string& line) { return snapshot_path(parsed(line.empty() ? Words() : split(line))); };
  CHECK(path("") == "snapshot-convnet-digits.pt");
  CHECK(path("--model=resnet18 --dataset=cifar10 --data=set/of/mine") == "snapshot-resnet18-cifar10.pt");
  CHECK(path("--model=gpt") == "snapshot-gpt-text.pt");
  CHECK(path("--model=gpt --data=books/my.first.txt") == "snapshot-gpt-my.first.pt");
  CHECK(path("--model=gpt --data=books/") == "snapshot-gpt-books.pt");
  CHECK(path("--model=gpt --data=/") == "snapshot-gpt-text.pt");
  CHECK(path("--model=gpt --data=..") == "snapshot-gpt-text.pt");
  CHECK(path("--model=gpt --data=a:b*.txt") == "snapshot-gpt-a_b_.pt");
  CHECK(path("--model=gpt --data=" + std::string(70, 'x')) == "snapshot-gpt-text.pt");
  CHECK(path("--snapshot=mine.pt") == "mine.pt");
  CHECK_THAT(read({"--print-config"}, "").early_exit->text, Contains("# by default snapshot-convnet-digits.pt"));
}

TEST_CASE("words key=value set values as hydra's do", "[command_line]") {
  CHECK(changed_by(split("20 lr=0.5 model=resnet18 +data.batch_size=8 ++trainer.seed=3 trainer.save_every=2 fresh=true "
                         "model.skip=[fc.,x] init=w dataset=cifar10 cuda=true train/num_workers=2")) ==
        "training.epochs=20 training.seed=3 data.name=cifar10 data.batch_size=8 data.workers=2 model.name=resnet18 "
        "model.init=w model.skip=fc.,x optimizer.lr=0.5 snapshot.every_epochs=2 snapshot.fresh=true "
        "machine.device=cuda");
  CHECK(parsed({"trainer.max_epochs=10"}).training.epochs == 10);
  CHECK(parsed({"optimizer=adam"}).optimizer.name == "adam");
}

TEST_CASE("of several words key=value the last one counts, and each overrides the file", "[command_line]") {
  CHECK(parsed({"lr=0.1", "optimizer.lr=0.2", "learning_rate=0.3"}).optimizer.lr == 0.3);
  CHECK(parsed({"fp16=true", "fp16=false"}).training.precision == "float");
  CHECK(parsed({"fp16=false", "fp16=true"}).training.precision == "fp16");
  CHECK(parsed({"--config=job.toml", "lr=0.1", "lr=0.2"}, "[optimizer]\nlr = 0.5\n").optimizer.lr == 0.2);
  CHECK_THAT(refused({"lr=0.1", "lr=fast"}), StartsWith("train: lr is 'fast'"));
}

TEST_CASE("~ and variables in the paths of a file are replaced, on the command line ~ alone", "[command_line]") {
  const std::map<std::string, std::string> variables{{"HOME", "/home/me"}, {"RUNS", "/runs"}};
  const auto read_with = [&](const Words& words, const std::string& file) {
    return read_command_line(
        words, [&](const std::string&) { return file; }, variables);
  };
  const auto path = [&](const std::string& text) {
    return read_with({"--config=job.toml"}, "[snapshot]\npath = \"" + text + "\"\n").options.snapshot.path;
  };
  CHECK(path("~/a.pt") == "/home/me/a.pt");
  CHECK(path("$RUNS/${HOME}.pt") == "/runs//home/me.pt");
  CHECK(path("a~/cost$.pt") == "a~/cost$.pt");
  CHECK(read_with({"--snapshot=~/a.pt"}, "").options.snapshot.path == "/home/me/a.pt");
  CHECK(read_with({"snapshot=~/$RUNS.pt"}, "").options.snapshot.path == "/home/me/$RUNS.pt");
  CHECK(read_with({"--metrics=~metrics"}, "").options.logging.metrics == "~metrics");
  const auto refusal_of = [&](const std::string& text) {
    return read_with({"--config=job.toml"}, "[data]\nfolder = \"" + text + "\"\n").early_exit.value().text;
  };
  CHECK(refusal_of("$NONE/a") ==
        "train: job.toml:2: data.folder is '$NONE/a', and there is no variable NONE in the environment.\n");
  CHECK_THAT(refusal_of("~you/a"), Contains("only ~/ is replaced, by HOME"));
}

TEST_CASE("a verb that is misspelt is the one mistake, whatever follows it", "[command_line]") {
  const std::string none = " is neither a number of epochs nor one of tour, shards and write. Did you mean '";
  check_refused({{{"tuor"}, "'tuor'" + none + "tour'?"},
                 {{"tours", "sampler"}, "'tours'" + none + "tour'?"},
                 {{"shrads", "a", "b"}, "'shrads'" + none + "shards'?"},
                 {{"wriet", "--prompt", "x"}, "'wriet'" + none + "write'?"}});
  CHECK_THAT(refused({"wrote.toml"}), Contains("--config wrote.toml"));
  CHECK(parsed({"lr=1"}).optimizer.lr == 1);
}

TEST_CASE("of several mistakes the first one is told", "[command_line]") {
  check_refused({{{"--modle=x", "--lrr=2"}, "there is no option --modle. Did you mean '--model'?"},
                 {{"--epochs=x", "--lr=y"}, "--epochs is 'x'; it takes a whole number from 1 up."},
                 {{"--heads=2", "--publish=a.onnx"}, "--heads is for the model gpt only: leave it out."}});
  CHECK_THAT(read_write_line({"--promt", "x"}).early_exit.value().text,
             StartsWith("train: there is no option --promt. Did you mean '--prompt'?"));
}

TEST_CASE("weights are not published in the name of a format that is not written", "[command_line]") {
  const std::string how =
      " is not written: it writes the weights alone, as safetensors where the name ends in .safetensors, "
      "and as a state_dict of PyTorch where it ends in .pt";
  check_refused({{{"--publish=x.onnx"},
                  "--publish is 'x.onnx', and ONNX" + how + ", from which torch.onnx.export() in Python makes ONNX."},
                 {{"--publish=x.H5"}, "--publish is 'x.H5', and HDF5" + how + "."}});
  for (const std::string name :
       {"x.pt", "x.pth", "x.bin", "x.safetensors", "x.ckpt", "x", "run.v2", "onnx", "x.onnx.pt"})
    CHECK(parsed({"--publish", name}).snapshot.publish == name);
}

TEST_CASE("the name of a model or a data set that was probably meant is told", "[command_line]") {
  const auto meant = [](const std::string& word) {
    const std::string text = refused({word}), begin = "Did you mean '";
    const auto at = text.find(begin);
    return at == std::string::npos ? "" : text.substr(at + begin.size(), text.rfind("'?") - at - begin.size());
  };
  CHECK(meant("--dataset=cifar") == "cifar10");
  CHECK(meant("--dataset=CIFAR-10") == "cifar10");
  CHECK(meant("--dataset=MNIST") == "mnist");
  CHECK(meant("--dataset=minst") == "mnist");
  CHECK(meant("--model=vgg16") == "vgg11_bn");
  CHECK(meant("--model=ResNet50") == "resnet50");
  CHECK(meant("--model=gpt2") == "gpt");
  CHECK(meant("--model=transformer") == "");
}

TEST_CASE("a file of settings in place of the epochs is told how it is named", "[command_line]") {
  for (const std::string name : {"job.toml", "job.yaml"})
    CHECK(refused({name}) == "train: total_epochs is '" + name +
                                 "'; it takes a whole number from 1 up. A file of settings is named with --config: "
                                 "--config " +
                                 name + ".\n");
}

TEST_CASE("a line of `train write` has numbers in their ranges", "[command_line]") {
  const WriteLine line = read_write_line(split("--prompt=a --length=3 --temperature=0.5 --top_k=4 --seed=5"));
  CHECK_FALSE(line.early_exit);
  CHECK(line.prompt == "a");
  CHECK(line.length == 3);
  CHECK(line.temperature == 0.5);
  CHECK(line.top_k == 4);
  CHECK(line.seed == 5);
  const auto wrong = [](const std::string& word) { return read_write_line({word}).early_exit.value().text; };
  CHECK_THAT(wrong("--length=0"), StartsWith("train: --length is '0'; it takes a whole number from 1 to "));
  CHECK_THAT(wrong("--temperature=warm"),
             StartsWith("train: --temperature is 'warm'; it takes a number from 0 to 100."));
  CHECK_THAT(wrong("--temprature=1"), EndsWith("`train write --help` explains it.\n"));
  CHECK(read_write_line({"--help"}).early_exit.value().code == 0);
}

TEST_CASE("a word key=value that is an option's value stays one", "[command_line]") {
  CHECK(parsed({"--snapshot", "lr=1.pt"}).snapshot.path == "lr=1.pt");
  CHECK(parsed({"--snap", "lr=1.pt"}).snapshot.path == "lr=1.pt");
  CHECK(parsed({"--set", "optimizer.lr=0.5", "--fresh", "seed=4"}).training.seed == 4);
  CHECK(parsed({"-b", "4", "seed=4"}).data.batch_size == 4);
}

TEST_CASE("a word key=value that cannot be is one sentence", "[command_line]") {
  CHECK(refused({"lr=fast"}) == "train: lr is 'fast'; it takes a number above 0.\n");
  CHECK(refused({"lr=1", "--lr=2"}) == "train: lr and --lr set the same value: leave out one of them.\n");
  CHECK(refused({"data.lr=1"}) == "train: data.lr=1: there is no key data.lr. Did you mean 'optimizer.lr'?\n");
  CHECK(refused({"modl.name=gpt"}) == "train: modl.name=gpt: there is no key modl.name. Did you mean 'model.name'?\n");
  CHECK_THAT(refused({"data.val.batch_size=256"}), StartsWith("train: data.val.batch_size=256: there is no key"));
  CHECK_THAT(refused({"model.optimizer.lr=1"}), StartsWith("train: model.optimizer.lr=1: there is no key"));
  CHECK_THAT(refused({"trainer.devices=2"}), StartsWith("train: trainer.devices is given to the launcher"));
  CHECK(refused({"lrr=1"}) == "train: lrr=1: there is no key lrr. Did you mean 'optimizer.lr'?\n");
  CHECK(refused({"hydra.run.dir=x"}) ==
        "train: hydra.run.dir=x: there is no key hydra.run.dir; train --print-config lists them.\n");
  CHECK_THAT(refused({"backend=gloo"}), StartsWith("train: backend follows from the device"));
  CHECK_THAT(refused({"--", "lr=1"}), StartsWith("train: total_epochs is 'lr=1'"));
}

TEST_CASE("of several values that cannot work the first one is told", "[command_line]") {
  const Words wrong = split("0 0 --batch-size=0 --lr=0 --momentum=1 --log-every=-1 --threads=-1");
  CHECK(refused(with(wrong, {"--lr", "nan"})) == "train: --lr is given twice: leave out one of them.\n");
  CHECK(refused(wrong) == "train: total_epochs is '0'; it takes a whole number from 1 up.\n");
  CHECK(refused({"--lr=nan"}) == "train: --lr is 'nan'; it takes a number above 0.\n");
}

TEST_CASE("names may be shortened or have underscores, and a file may be lax about types", "[command_line]") {
  CHECK(parsed({"--batch_size", "5"}).data.batch_size == 5);
  CHECK(parsed({"--momen=0.5"}).optimizer.momentum == 0.5);
  CHECK_THAT(refused({"--init=x", "--s=1"}), Contains("--s is ambiguous: it may be "));
  const Options options =
      parsed({"--config=job.toml"}, "[optimizer]\nnesterov = 1\nlr = \"0.5\"\n[model]\ninit = \"w\"\nskip = \"fc.\"\n");
  CHECK(options.optimizer.nesterov);
  CHECK(options.optimizer.lr == 0.5);
  CHECK(options.model.skip == std::vector<std::string>{"fc."});
}

TEST_CASE("option --print-completion of train prints a script for each shell", "[command_line]") {
  for (const char* shell : {"bash", "zsh", "tcsh"}) {
    const auto script = read({"--print-completion", shell}).early_exit;
    REQUIRE(script);
    CHECK(script->code == 0);
    CHECK_THAT(script->text, Contains("train") && Contains("batch-size"));
  }
  CHECK(refused({"--print-completion=fish"}) == "train: --print-completion is 'fish'; it takes bash, zsh or tcsh.\n");
}

TEST_CASE("model and data follow from each other, and the rate from the optimizer", "[command_line]") {
  CHECK(parsed({}).model.name == "convnet");
  CHECK(parsed({}).data.name == "digits");
  CHECK(parsed({"--model=gpt"}).data.name == "text");
  CHECK(parsed({"--dataset=text"}).model.name == "gpt");
  CHECK(parsed({"--dataset=toy"}).model.name == "linear");
  CHECK(parsed({"--model=resnet18"}).data.name == "digits");
  CHECK(parsed({"--optimizer=adam"}).optimizer.lr == 0.001);
  CHECK(parsed({"--optimizer=adam", "--lr=0.05"}).optimizer.lr == 0.05);
  CHECK(parsed({}).evaluation.by == "accuracy");
  CHECK(parsed({"--model=gpt"}).evaluation.by == "loss");
}

TEST_CASE("a graph of a step takes fused steps", "[command_line]") {
  CHECK_FALSE(parsed({}).optimizer.fused);
  CHECK(parsed({"--cuda-graph"}).optimizer.fused);
}

TEST_CASE("what does not go together is one sentence", "[command_line]") {
  check_refused({
      {{"--model=gpt", "--dataset=mnist"},
       "the model gpt takes text, and the data mnist are something else: pass another --model or another --dataset."},
      {{"--deterministic", "--cudnn-benchmark"},
       "--cudnn-benchmark chooses by measured time, which differs from run to run, and --deterministic excludes that: "
       "leave out one of them."},
      {{"--cuda-graph", "--device=cpu"}, "--cuda-graph needs a GPU, and --device is cpu: leave out one of them."},
  });
  const std::vector<Refused> rows{
      {{"--snapshot", ""}, "--snapshot needs the name of a file."},
      {{"--init=a", "--transfer=b"}, "leave out one of them"},
      {{"--skip=fc."}, "--skip belongs to --init or --transfer"},
      {{"--nesterov", "--optimizer=adam"}, "--nesterov applies to sgd with momentum"},
      {{"--cuda-graph", "--accumulate=2"}, "--accumulate makes steps of several"},
      {{"--cuda-graph", "--skip-bad-losses=1"}, "reads each loss in the middle of its step"},
      {{"--dataset=toy", "--best=accuracy"}, "the data toy have no accuracy"},
      {{"--model=gpt", "--sync-bn"}, "gpt has no batch norm"},
      {{"--model=gpt", "--channels-last"}, "--channels-last is for models of images, and gpt"},
      {{"--dataset=text", "--augment"}, "--augment and --normalise are for images"},
      {{"--model=gpt", "--heads=3"}, "cannot be divided among 3 --heads"},
      {{"--init-method=udp://h:1"}, "--init-method is 'udp://h:1' but takes tcp://HOST:PORT"},
      {{"--rank=1"}, "--rank and --world-size belong together"},
      {{"--rank=2", "--world-size=2"}, "--rank is 2 but --world-size is 2"},
      {{"--dataset=text", "--predictions=p"}, "--predictions"},
  };
  for (const auto& [arguments, part] : rows) CHECK_THAT(refused(arguments), Contains(part));
}

TEST_CASE("train tour lists the tours, and a wrong one is told", "[command_line]") {
  const auto list = read_tour_line({}).early_exit;
  REQUIRE(list);
  CHECK(list->code == 0);
  for (const Tour& tour : tours()) {
    CHECK_THAT(list->text, Contains(tour.name) && Contains(tour.help.substr(0, 40)));
    const TourLine line = read_tour_line({tour.name, "--device=cpu"});
    CHECK_FALSE(line.early_exit);
    CHECK(line.name == tour.name);
    CHECK(line.device == "cpu");
    CHECK(read_tour_line({tour.name, "--svg=f.svg"}).early_exit.has_value() != tour.draws);
  }
  const auto says = [](std::vector<std::string> words) {
    const auto early_exit = read_tour_line(std::move(words)).early_exit;
    REQUIRE(early_exit);
    CHECK(early_exit->code == 2);
    return early_exit->text;
  };
  CHECK(says({"sampeler"}) == "train: there is no tour 'sampeler'. Did you mean 'sampler'?\n");
  CHECK_THAT(says({"everything"}), Contains("There are collectives, ") && Contains(" and dp-vs-ddp."));
  CHECK(says({"reduce", "--svg=f"}) == "train: the tour reduce draws no picture: leave out --svg.\n");
  CHECK_THAT(says({"reduce", "--lr=1"}), Contains("train tour --help"));
  CHECK(read_tour_line({"sampler"}).samples == kTourSamples);
  CHECK(read_tour_line({"sampler", "--samples=20"}).samples == 20);
  CHECK(read_tour_line({"sampler", "--batch_size=4"}).batch_size == 4);
  CHECK(says({"reduce", "--samples=3"}) ==
        "train: the tour reduce deals no samples: leave out --samples and --batch-size, or choose sampler.\n");
  for (const char* wrong : {"--samples=0", "--samples=101", "--samples=x", "--batch-size=0"})
    CHECK_THAT(says({"sampler", wrong}), StartsWith("train: --") && Contains("train tour --help"));
}

TEST_CASE("auto takes a GPU per worker where there are GPUs", "[device]") {
  CHECK(std::holds_alternative<UseCpu>(choose_device(DeviceChoice::automatic, sees(0), worker(0, 4))));
  CHECK(std::get<UseGpu>(choose_device(DeviceChoice::automatic, sees(4), worker(3, 4))).index == 3);
  CHECK(std::holds_alternative<UseCpu>(choose_device(DeviceChoice::cpu, sees(4), worker(0, 8))));
  CHECK(device_choice("cuda") == DeviceChoice::cuda);
  CHECK(device_choice("auto") == DeviceChoice::automatic);
}

TEST_CASE("more workers than GPUs is one sentence", "[device]") {
  CHECK_THAT(refusal(DeviceChoice::automatic, sees(2), worker(0, 4)),
             Contains("4 workers on this machine but only 2 GPUs: start at most one worker per GPU "
                      "(--nproc_per_node=2), or pass --device cpu."));
  CHECK_THAT(refusal(DeviceChoice::cuda, sees(2), worker(1, 3)), Contains("only 2 GPUs"));
  CHECK_THAT(refusal(DeviceChoice::cuda, sees(0), worker(0, 1)), Contains("sees no GPU"));
}

TEST_CASE("ranks that see one GPU each may have one each: --virtual-local-rank, or Slurm's --gpus-per-task",
          "[device]") {
  CHECK(std::holds_alternative<AskPeers>(choose_device(DeviceChoice::automatic, sees(1), worker(0, 4))));
  CHECK(std::holds_alternative<AskPeers>(choose_device(DeviceChoice::cuda, sees(1), worker(3, 4))));
  CHECK(std::get<UseGpu>(choose_device(DeviceChoice::automatic, sees(1), worker(0, 1))).index == 0);
}

TEST_CASE("a driver that is not well is a sentence, one that is too old leaves the CPU", "[device]") {
  const Gpus ill{.problem = "the driver says no", .remedy = "Mend it."}, old{.too_old = "the driver is old"};
  for (const auto choice : {DeviceChoice::automatic, DeviceChoice::cuda})
    CHECK(refusal(choice, ill, worker(0, 1)) == "the driver says no. Mend it. Or pass --device cpu.");
  CHECK(std::holds_alternative<UseCpu>(choose_device(DeviceChoice::cpu, ill, worker(0, 1))));
  CHECK(std::holds_alternative<UseCpu>(choose_device(DeviceChoice::automatic, old, worker(0, 1))));
  CHECK(refusal(DeviceChoice::cuda, old, worker(0, 1)) ==
        "--device is cuda, but the driver is old: update the driver, or pass --device cpu.");
}

TEST_CASE("threads are what was asked, else OMP_NUM_THREADS, else one", "[device]") {
  CHECK(choose_threads(3, true) == 3);
  CHECK(choose_threads(0, true) == 0);
  CHECK(choose_threads(0, false) == 1);
}
