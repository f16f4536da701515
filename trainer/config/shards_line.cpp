#include "trainer/config/shards_line.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <variant>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "trainer/config/parse_words.h"

namespace ddprun::train {
namespace {

constexpr std::uint64_t kShardBytesMax = std::uint64_t{1} << 40;

EarlyExit refused_shards(const std::string& sentence) {
  return {2, "train: " + visible(sentence) + " `train shards --help` explains it.\n"};
}

}  // namespace

ShardsLine read_shards_line(std::vector<std::string> arguments) {
  ShardsLine line;
  std::string shard_size = "16M";
  CLI::App app(
      "Writes a data set of images as shards, for training with --dataset shards --data TO.\n\n"
      "  train shards data/cifar-10-batches-py shards\n");
  app.add_option("FROM", line.from, "folder of the files of MNIST or CIFAR-10, or of sets of the same form");
  app.add_option("TO", line.to, "folder to write; it gets images.json and the folders train and test");
  app.add_option("--dataset", line.dataset, "which of them FROM has; by default what its files are")
      ->type_name("NAME")
      ->check(CLI::IsMember({"digits", "mnist", "cifar10"}).description(""));
  app.add_option("--shard-size,--shard_size", shard_size, "size of a shard, such as 64M")
      ->type_name("SIZE")
      ->capture_default_str();
  line.early_exit = parse_words(app, "train shards FROM TO [options]", std::move(arguments), refused_shards);
  if (line.early_exit) return line;
  const auto bytes = settings::read_byte_size(shard_size);
  if (line.from.empty() || line.to.empty())
    line.early_exit = refused_shards("`train shards` takes two folders, FROM and TO.");
  else if (const auto* wrong = std::get_if<settings::Wrong>(&bytes))
    line.early_exit = refused_shards(settings::invalid_value("--shard-size", shard_size, wrong->complaint));
  else if (const auto size = std::get<std::uint64_t>(bytes); size == 0 || size > kShardBytesMax)
    line.early_exit = refused_shards("--shard-size is '" + shard_size + "'; it takes a size from 1 byte to 1T.");
  else
    line.shard_bytes = static_cast<std::int64_t>(size);
  return line;
}

}  // namespace ddprun::train
