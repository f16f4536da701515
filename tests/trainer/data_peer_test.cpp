// The data against what Python makes of it (data_peer.py).
#include <torch/torch.h>
#include <zlib.h>

#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "tests/trainer/golden.h"
#include "trainer/data/dataset.h"

namespace {

// What Python prints for these lines.
std::string peer(const std::string& lines) {
  const Ended python = test::run({test::venv_python(), test::source_folder() + "/tests/trainer/data_peer.py"},
                                 std::chrono::seconds(100), {.input = lines});
  REQUIRE(python == test::exited(0));
  return python.out;
}

// The image of data_peer.py.
Images peer_image(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Images images{.channels = channels, .height = height, .width = width, .classes = 1, .labels = {0}};
  for (std::int64_t i = 0; i < images.image_bytes(); ++i) images.pixels.push_back(static_cast<std::uint8_t>(1 + 7 * i));
  return images;
}

// As data_peer.py prints it.
std::string utf8_line(const std::string& bytes) {
  std::ostringstream line;
  try {
    const std::u32string text = decode_utf8(bytes, "it");
    line << "ok";
    for (const char32_t character : text) line << ' ' << static_cast<std::uint32_t>(character);
  } catch (const Error& error) {
    const std::string sentence = error.what();
    line << std::stoi(sentence.substr(sentence.find("offset ") + 7));
  }
  return line.str() + "\n";
}

// Mostly whole characters, with bytes of all kinds thrown in.
std::string nearly_utf8(std::mt19937& random) {
  const auto pieces = test::split(
      "a é € 😀 \x80 \xc1 \xc2 \xe0 \xe0\x9f \xed\xa0\x80 \xef\xbf \xf0\x8f \xf4\x90 \xf5 \xff \xf0\x9f\x98 "
      "\xed\x9f\xbf \xf4\x8f\xbf\xbf");
  std::string text;
  for (std::size_t i = random() % 8; i > 0; --i)
    text += random() % 4 ? pieces[random() % 4] : pieces[random() % pieces.size()];
  return text;
}

}  // namespace

TEST_CASE("augmented images are torchvision's for the same crop and flip, bit for bit", "[dataset]") {
  struct Case {
    std::int64_t channels, height, width, padding;
    Crop crop;
    std::string mean, std;
    MeanStd mean_std;
  };
  const std::string mean = "0.4914,0.4822,0.4465", std = "0.2470,0.2435,0.2616";
  const MeanStd cifar{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
  const std::vector<Case> cases{{3, 32, 32, 4, {0, 8, false}, mean, std, cifar},
                                {3, 32, 32, 4, {7, 1, true}, mean, std, cifar},
                                {3, 9, 14, 2, {4, 0, true}, "-", "-", {}},
                                {1, 28, 28, 3, {3, 3, false}, "0.1307", "0.3081", {{0.1307F}, {0.3081F}}}};
  std::ostringstream lines, ours;
  for (const Case& c : cases) {
    const Images images = peer_image(c.channels, c.height, c.width);
    at::Tensor image = torch::empty({c.channels, c.height, c.width});
    write_crop(view_of(images, 0), c.mean == "-" ? PixelTable(c.channels) : PixelTable(c.mean_std),
               {.padding = c.padding}, c.crop, image.data_ptr<float>());
    ours << test::crc({image}) << '\n';
    lines << "augment " << c.channels << ' ' << c.height << ' ' << c.width << ' ' << c.padding << ' ' << c.crop.top
          << ' ' << c.crop.left << ' ' << c.crop.flipped << ' ' << c.mean << ' ' << c.std << '\n';
  }
  CHECK(ours.str() == peer(lines.str()));
}

TEST_CASE("samples of a text are those that Python cuts", "[dataset]") {
  const TempFolder folder;
  const std::string mixed = "né €uro 😀 " + test::generated_text(700, 3) + "ümlaut 😀\r\n";
  const std::vector<std::pair<std::string, std::pair<int, int>>> cases{
      {test::source_folder() + "/data/text/input.txt", {64, 0}},
      {folder.write("text", mixed), {7, 3}},
      {folder / "text", {5, 9}}};
  std::ostringstream lines, ours;
  for (const auto& [file, window] : cases) {
    const DataSpec spec{.name = "text", .folder = file, .context = window.first, .stride = window.second};
    const Dataset data = load_dataset(spec, at::kCPU);
    CHECK(data.task == Task::predict_next);
    CHECK(data.context == window.first);
    const auto ids = test::up_to(data.vocabulary.size());
    const std::string vocabulary = data.vocabulary.text_of(ids);
    char checksum[9];
    std::snprintf(checksum, sizeof checksum, "%08lx",
                  crc32(0, reinterpret_cast<const Bytef*>(vocabulary.data()), static_cast<uInt>(vocabulary.size())));
    ours << ids.size() << ' ' << checksum << '\n';
    for (const Split& split : {data.train, data.test}) {
      const Batch batch = split.batch(test::up_to(split.size()), 0);
      REQUIRE(batch.inputs.is_contiguous());
      REQUIRE(batch.targets.is_contiguous());
      ours << split.size() << ' ' << test::crc({batch.inputs}) << ' ' << test::crc({batch.targets}) << '\n';
    }
    lines << "text " << file << ' ' << window.first << ' ' << (window.second == 0 ? window.first : window.second)
          << '\n';
  }
  CHECK(ours.str() == peer(lines.str()));
}

TEST_CASE("UTF-8 is read, and refused at the same byte, as Python does", "[dataset]") {
  std::mt19937 random(1);
  std::string lines, ours;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = nearly_utf8(random);
    lines += "utf8 " + hex(text) + "\n";
    ours += utf8_line(text);
  }
  CHECK(ours == peer(lines));
}
