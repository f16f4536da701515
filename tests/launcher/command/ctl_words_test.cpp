#include "launcher/command/ctl_words.h"

#include "tests/support/test.h"

namespace {

// "mnist: drain n3"
std::string read(const std::vector<std::string>& words) {
  const CtlWords read = read_ctl_words(words);
  return (read.job.empty() ? "" : read.job + ": ") + in_words(read.act);
}

}  // namespace

TEST_CASE("an act, with or without the job's name", "[ctl]") {
  CHECK(read({"restart"}) == "restart");
  CHECK(read({"mnist", "pause"}) == "mnist: pause");
  CHECK(read({"mnist", "drain", "n3"}) == "mnist: drain n3");
  CHECK(read({"drain", "n3"}) == "drain n3");
  CHECK(read({"drain", "stop"}) == "drain stop");  // a node may be called so
  CHECK(read({"stop", "stop"}) == "stop: stop");   // and a job
  CHECK(read({"drain", "drain", "n3"}) == "drain: drain n3");
  CHECK(read_ctl_words({"mnist", "stacks"}).stacks);
  CHECK(read({"resize", "2:4"}) == "resize 2:4");
  CHECK(read({"resize", "3"}) == "resize 3:3");
}

TEST_CASE("workers are added and removed by their number, on one node or all", "[ctl]") {
  CHECK(read({"add-workers"}) == "add-workers 1");
  CHECK(read({"add_workers", "2"}) == "add-workers 2");
  CHECK(read({"add-workers", "n3"}) == "add-workers 1 n3");
  CHECK(read({"mnist", "add-workers", "2", "n3"}) == "mnist: add-workers 2 n3");
  CHECK(read({"remove-workers", "1", "0"}) == "remove-workers 1 0");  // group rank 0
}

TEST_CASE("options say where a job elsewhere is", "[ctl]") {
  const CtlWords words = read_ctl_words({"--rdzv_endpoint", "n1:29400", "far", "stop", "--token-file=t"});
  CHECK(words.mistake.empty());
  CHECK(words.job == "far");
  CHECK(words.access == std::vector<std::string>{"--rdzv-endpoint=n1:29400", "--token-file=t"});
  const CtlWords etcd =
      read_ctl_words({"far", "stop", "--rdzv-backend=etcd", "--rdzv-endpoint=e1", "--rdzv_conf", "user=u"});
  CHECK(etcd.mistake.empty());
  CHECK(etcd.access == std::vector<std::string>{"--rdzv-backend=etcd", "--rdzv-endpoint=e1", "--rdzv-conf=user=u"});
}

TEST_CASE("an act that was carried out is one line: when, which, and what follows", "[ctl]") {
  std::tm when{};
  when.tm_hour = 14;
  when.tm_min = 3;
  when.tm_sec = 7;
  const CtlWords words = read_ctl_words({"mnist", "drain", "n3"});
  CHECK(act_line(in_words(words.act), "n3 leaves the job", when) == "14:03:07 drain n3: n3 leaves the job.");
}

TEST_CASE("wrong words of ctl are told in a sentence each", "[ctl]") {
  const auto mistake = [](const std::vector<std::string>& words) { return read_ctl_words(words).mistake; };
  CHECK_THAT(mistake({}), Contains("it takes an act"));
  for (const char* count : {"0", "99999999", "70000"})
    CHECK_THAT(mistake({"add-workers", count}), Contains("is no number of workers"));
  CHECK_THAT(mistake({"add-workers", "2", "n3", "n4"}), Contains("'n4' is one word too many."));
  CHECK_THAT(mistake({"remove-workers", "n3", "n4"}), Contains("'n4' is one word too many."));
  CHECK_THAT(mistake({"restrat"}),
             EndsWith("'restrat' is no act. Did you mean 'restart'? ddprun ctl --help lists them."));
  CHECK(mistake({"j1"}) == "'j1' is no act; after a job's name it takes one. ddprun ctl --help lists them.");
  CHECK_THAT(mistake({"mnist", "restrat"}), Contains("'restrat' is no act. Did you mean 'restart'?"));
  CHECK_THAT(mistake({"mnist", "frobnicate"}), EndsWith("'frobnicate' is no act. ddprun ctl --help lists them."));
  CHECK_THAT(mistake({"--token-fiel=t", "stop"}), EndsWith("no option --token-fiel. Did you mean '--token-file'?"));
  CHECK_THAT(mistake({"drain"}), Contains("drain takes a node"));
  CHECK_THAT(mistake({"restart", "now"}), Contains("'now' is one word too many."));
  CHECK_THAT(mistake({"resize"}), Contains("resize takes the numbers of nodes"));
  for (const char* sizes : {"4:2", "0:2", "a", "2:", ":2", "2:x", "99999999"})
    CHECK_THAT(mistake({"resize", sizes}), Contains("they are MIN:MAX"));
  CHECK_THAT(mistake({"--token-file=t", "stop"}), Contains("--rdzv-endpoint"));
  CHECK_THAT(mistake({"--token-file"}), Contains("needs a value"));
  CHECK_THAT(mistake({"--force", "stop"}), Contains("there is no option --force"));
  CHECK_THAT(read_ctl_words({"--help"}).answer, Contains("drain NODE"));
}
