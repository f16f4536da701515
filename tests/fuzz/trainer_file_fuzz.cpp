// The files that the trainer reads, and others wrote. The first byte says which kind the rest is.
#include "launcher/settings/config_file.h"
#include "rendezvous/base/error.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/config/command_line.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/cifar10_pickle.h"
#include "trainer/data/idx.h"
#include "trainer/data/text.h"
#include "trainer/ddp/snapshot/safetensors.h"

using namespace ddprun;
using namespace ddprun::train;
using namespace ddprun::fuzz;

namespace {

void read_settings(const std::string& text) {
  const auto line =
      read_command_line({"--config=job.toml", "--print-config"}, [&](const std::string&) { return text; });
  promise(line.early_exit.has_value(), "what is asked for is printed, or refused");
  if (line.early_exit->code != 0) return;
  const auto again =
      read_command_line({"--config=job.toml"}, [&](const std::string&) { return line.early_exit->text; });
  promise(!again.early_exit, "what is printed is a file");
  for (const settings::Option* setting : all_settings())
    promise(text_of(*setting, again.options) == text_of(*setting, line.options), "and holds the same values");
}

void read_tensors(const std::string& text) {
  for (const SafeTensor& tensor : parse_safetensors(text, "file")) {
    promise(tensor.begin + tensor.bytes <= text.size(), "a tensor lies in its file");
    std::size_t bytes = safetensors_element_bytes(tensor.dtype);
    for (const auto size : tensor.shape) bytes *= static_cast<std::size_t>(size);
    promise(bytes == tensor.bytes, "and is as long as its shape");
  }
}

void read_images(const std::vector<std::uint8_t>& bytes) {
  const IdxArray array = decode_idx(bytes, "file");
  std::size_t values = 1;
  for (const auto size : array.shape) values *= static_cast<std::size_t>(size);
  promise(values == array.values.size(), "an array is as long as its shape");
}

void read_pickle(const std::vector<std::uint8_t>& bytes) {
  Images images{.channels = 3, .height = 32, .width = 32, .classes = 10};
  append_cifar10_pickle(images, bytes, "file");
  promise(images.pixels.size() == images.labels.size() * 3072, "each label has its image");
}

void read_yaml(const std::string& text) {
  const auto read_file = [&](const std::string&) { return text; };
  promise(read_command_line({"--config=job.yaml"}, read_file).early_exit->code == 2, "YAML is refused");
  const auto line = read_command_line({"--config=job.yaml", "--print-config"}, read_file);
  promise(line.early_exit && line.early_exit->code == 0, "and converted");
  const auto check_toml = [](const std::string& toml) {
    for (const std::string& mistake : settings::read_config_file(setting_table(), "file", toml).mistakes)
      promise(mistake.find("not valid TOML") == std::string::npos, "to TOML");
  };
  check_toml(line.early_exit->text);
}

void read_records(const std::vector<std::uint8_t>& bytes) {
  Images images{.channels = 3, .height = 32, .width = 32, .classes = 10};
  append_cifar10(images, bytes, "file");
  promise(images.pixels.size() == images.labels.size() * 3072, "each label has its image");
  for (const auto label : images.labels) promise(label >= 0 && label < 10, "and is one of ten");
}

}  // namespace

DDPRUN_FUZZER(trainer_file) try {
  if (size == 0) return 0;
  const std::string text = fuzz::text_of(data + 1, size - 1);
  const std::vector<std::uint8_t> bytes(data + 1, data + size);
  if (data[0] == 254) return read_pickle(bytes), 0;
  if (data[0] == 253) return read_yaml(text), 0;
  switch (data[0] % 5) {
    case 0:
      read_settings(text);
      break;
    case 1:
      read_tensors(text);
      break;
    case 2:
      read_images(bytes);
      break;
    case 3:
      read_records(bytes);
      break;
    default:
      decode_utf8(text, "file");
  }
  return 0;
} catch (const Error&) {  // one sentence for a person
  return 0;
}
