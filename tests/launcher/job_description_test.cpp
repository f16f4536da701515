#include "launcher/jobs/job_file.h"

#include "launcher/config/values.h"
#include "launcher/jobs/hyperparameters.h"
#include "tests/support/test.h"

namespace {

DescribedJob described(const std::string& text, Words overrides = {}, Words arguments = {}) {
  return read_job_description({"job.toml", "/home/me/jobs", text, std::move(overrides), std::move(arguments)});
}

JobDescription job(const std::string& text, Words overrides = {}) {
  const DescribedJob read = described(text, std::move(overrides));
  INFO((read.mistakes.empty() ? "" : read.mistakes.front()));
  REQUIRE(read.mistakes.empty());
  return read.job;
}

const std::string kProgram = "program = 'train'\n";

Words words_in(const std::string& style, const std::string& parameters) {
  Words program = job(kProgram + "hyperparameter_style = '" + style + "'\n[hyperparameters]\n" + parameters).program;
  program.erase(program.begin());
  return program;
}

}  // namespace

TEST_CASE("a job's file holds the program, its arguments, options, variables and where its data go", "[job_file]") {
  const JobDescription read =
      job("name = 'digits'\nsource_dir = '../src'\nprogram = ['train.py', '--lr', '0.1']\narguments = ['-v', 3]\n"
          "nodes = 2\nnproc_per_node = 4\nmax_run = '2h'\nmax_wait = 90\noutput_path = 'out'\ntags = ['team=vision']\n"
          "stop-grace = '40s'\n[environment]\nCOLOUR = 'blue'\n[slurm]\npartition = 'gpu'\nexclusive = true\n");
  CHECK(read.name == "digits");
  CHECK(read.source_dir == "/home/me/src");
  CHECK(read.output_path == "/home/me/jobs/out");
  CHECK(read.program == Words{"train.py", "--lr", "0.1", "-v", "3"});
  CHECK(read.nodes == 2);
  CHECK(read.max_run == Duration(2h));
  CHECK(read.max_wait == Duration(90s));
  CHECK(read.tags == Words{"team=vision"});
  CHECK(read.slurm == SchedulerWords{{"partition", "gpu"}, {"exclusive", ""}});
  CHECK(has(read.config, "nnodes = 2\n"));
  CHECK(has(read.config, "nproc-per-node = 4\n"));
  CHECK(has(read.config, "rdzv-conf = \"join_timeout=90\""));
  CHECK(has(read.config, "stop-grace = \"40s\""));
  CHECK(has(read.config, "program = [\"train.py\", \"--lr\", \"0.1\", \"-v\", \"3\"]"));
  CHECK(has(read.config, "[env]\nCOLOUR = \"blue\""));
}

TEST_CASE("etcd in a job's file becomes the options for it", "[job_file]") {
  const std::string nodes = kProgram + "nodes = '2:4'\n";
  const JobDescription plain = job(nodes + "rendezvous = 'etcd://e1:2379,e2'\n");
  CHECK(has(plain.config, "rdzv-backend = \"etcd\"\n"));
  CHECK(has(plain.config, "rdzv-endpoint = \"e1:2379,e2\"\n"));
  const JobDescription tls = job(nodes, {"rendezvous=etcd+https://e1,e2", "rdzv-conf=cacert=ca.pem"});
  CHECK(has(tls.config, "rdzv-endpoint = \"https://e1,e2\"\n"));
  CHECK(has(tls.config, "rdzv-conf = \"cacert=ca.pem\"\n"));
  for (const char* wrong : {"'etcd://'", "'etcds://e1'", "'c10d'", "3"})
    CHECK_THAT(described(kProgram + "rendezvous = " + wrong + "\n").mistakes.at(0),
               StartsWith("job.toml:2: rendezvous is ") && Contains("it takes \"etcd://HOST:PORT,HOST:PORT\", or "));
  for (const char* scheme : {"etcd", "etcd+https", "http"}) {
    const auto said = described(kProgram + "rendezvous = '" + scheme + "://u:hunter2@e1'\n").mistakes;
    REQUIRE(said.size() == 1);
    CHECK(said[0] == std::string("job.toml:2: rendezvous ") + kHoldsUser + ".");
  }
  CHECK_THAT(described(kProgram + "rendezvous = 'etcd://e1:port'\n").mistakes.at(0), StartsWith("job.toml:2: "));
}

TEST_CASE("what a file leaves out comes from its name and place", "[job_file]") {
  const JobDescription read = job(kProgram);
  CHECK(read.name == "job");
  CHECK(read.source_dir == "/home/me/jobs");
  CHECK(read.nodes == 1);
  CHECK(read_job_description({"/x/my job!.toml", "/x", kProgram, {}, {}}).job.name == "my-job-");
}

TEST_CASE("hyperparameters become words in the order of the file, blanks and quotes as they are", "[job_file]") {
  CHECK(words_in("argparse",
                 "zeta = 1\nlr = 1e-3\nname = \"two 'words'\"\nfast = true\nslow = false\nb = 32\n"
                 "sizes = [64, 32]\nnote = '-x'\nshift = -1\n") == Words{"--zeta", "1", "--lr", "0.001", "--name",
                                                                         "two 'words'", "--fast", "-b", "32", "--sizes",
                                                                         "64", "32", "--note=-x", "--shift", "-1"});
  CHECK(words_in("sagemaker", "fast = true\nslow = false\nsizes = [64, 32]\noptimizer = {lr = 0.1}\nb = 'x y'\n") ==
        Words{"--fast", "True", "--slow", "False", "--sizes", "[64,32]", "--optimizer", "{\"lr\":0.1}", "-b", "x y"});
  CHECK(words_in("hydra", "fast = true\nsizes = [64, 32]\noptimizer.lr = 0.1\nname = 'two words'\nempty = ''\n") ==
        Words{"fast=true", "sizes=[64,32]", "optimizer.lr=0.1", "name='two words'", "empty=''"});
}

TEST_CASE("option --set replaces values, of tables by key, and words behind -- come last", "[job_file]") {
  const std::string text = "program = ['train', 'a']\nmax-restarts = 1\n[hyperparameters]\nlr = 0.1\nepochs = 3\n";
  const DescribedJob read =
      described(text, {"hyperparameters.lr=0.2", "max-restarts=7", "hyperparameters.b=text"}, {"-v"});
  CHECK(read.mistakes.empty());
  CHECK(read.job.program == Words{"train", "a", "--lr", "0.2", "--epochs", "3", "-b", "text", "-v"});
  CHECK(has(read.job.config, "max-restarts = 7\n"));
  CHECK(described(text, {"max-restarts=many"}).mistakes ==
        Words{"--set max-restarts: max-restarts is 'many'; it takes a whole number from 0 up."});
  CHECK(described(text, {"lr"}).mistakes == Words{"--set is 'lr'; it takes KEY=VALUE, such as --set max-restarts=5."});
}

TEST_CASE("SageMaker's names are understood, of its Estimator and of its ModelTrainer", "[job_file]") {
  const DescribedJob v2 = described(
      "base_job_name = 'mnist'\nentry_point = 'mnist.py'\ninstance_count = 2\ninstance_type = 'ml.p4d'\nmax_run = "
      "3600\n"
      "checkpoint_local_path = '/opt/ml/checkpoints'\ncheckpoint_s3_uri = 's3://b/c'\nvolume_size = 30\n"
      "metric_definitions = [{Name = 'loss', Regex = 'loss (.*)'}]\ntags = [{Key = 'team', Value = 'vision'}]\n");
  CHECK(v2.mistakes.empty());
  CHECK(v2.warnings == Words{"job.toml: instance_type and volume_size have no effect: ddprun rents no machines and "
                             "starts no containers."});
  CHECK(v2.job.name == "mnist");
  CHECK(v2.job.nodes == 2);
  CHECK(v2.job.max_run == Duration(1h));
  CHECK(v2.job.snapshot.path == "/opt/ml/checkpoints");
  CHECK(v2.job.snapshot.fetch == "aws s3 sync s3://b/c {path}");
  CHECK(v2.job.snapshot.store == "aws s3 sync {path} s3://b/c");
  CHECK(has(v2.job.config, "regex = \"loss (.*)\""));
  CHECK(v2.job.tags == Words{"team=vision"});

  const DescribedJob v3 = described(
      "[source_code]\nsource_dir = 'src'\nentry_script = 'a.py'\n[compute]\ninstance_count = 3\ninstance_type = 'x'\n"
      "[stopping_condition]\nmax_runtime_in_seconds = 60\n[distributed]\nprocess_count_per_node = 8\n"
      "[checkpoint_config]\nlocal_path = 'c'\n");
  CHECK(v3.mistakes.empty());
  CHECK(v3.job.program == Words{"a.py"});
  CHECK(v3.job.source_dir == "/home/me/jobs/src");
  CHECK(v3.job.nodes == 3);
  CHECK(v3.job.max_run == Duration(60s));
  CHECK(v3.job.snapshot.path == "c");
  CHECK(has(v3.job.config, "nproc-per-node = 8\n"));
}

TEST_CASE("each mistake in a job's file is a sentence with its line", "[job_file]") {
  const auto first = [](const std::string& text) {
    const Words mistakes = described(text).mistakes;
    return mistakes.empty() ? "" : mistakes.front();
  };
  CHECK(first("entry_pont = 'a'\n") == "job.toml:1: there is no key entry_pont. Did you mean 'entry_point'?");
  CHECK(first("nproc_pr_node = 2\n" + kProgram) ==
        "job.toml:1: there is no key nproc_pr_node. Did you mean 'nproc_per_node'?");
  CHECK(first("nodes = 2\n") ==
        "job.toml: no program is named: program = [\"train.py\", \"--lr\", \"0.1\"], or entry_point = \"train.py\".");
  CHECK(has(first(kProgram + "name = 'a b'\n"), "job.toml:2: name is the string 'a b'; it takes at most 60 letters"));
  CHECK(has(first(kProgram + "hyperparameters = 3\n"), "job.toml:2: hyperparameters is 3; it is a table"));
  CHECK(has(first(kProgram + "[hyperparameters]\na = {b = 1}\n"), "job.toml:3: the hyperparameter a is a table"));
  CHECK(
      has(first(kProgram + "[[metrics]]\nname = 'x'\nregex = '('\n"), "job.toml:4: regex is not a regular expression"));
  CHECK(has(first(kProgram + "[[metrics]]\nnam = 'x'\n"), "a metric has no key nam; its keys are name and regex"));
  CHECK(has(first(kProgram + "[snapshot]\nfetsh = 'x'\n"), "Did you mean 'fetch'?"));
  CHECK(has(first(kProgram + "[snapshot]\nlimit = 'never'\n"),
            "snapshot.limit is the string 'never'; it takes a time above 0"));
  CHECK(has(first(kProgram + "max_wait = 'soon'\n"),
            "job.toml:2: max_wait is the string 'soon'; it takes a time above 0"));
  CHECK(has(first(kProgram + "output_path = 's3://b'\n"), "it takes a folder of this machine"));
  CHECK(has(first(kProgram + "event-log-handler = 'console'\n"), "is for ddprun itself"));
  CHECK(
      has(first(kProgram + "[compute]\ninstance_cuont = 2\n"), "there is no key compute.instance_cuont. Did you mean"));
}
