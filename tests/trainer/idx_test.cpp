#include "trainer/data/idx.h"

#include <zlib.h>

#include "rendezvous/base/error.h"
#include "tests/support/test.h"

using Bytes = std::vector<std::uint8_t>;

namespace {

// Two images of one row of three pixels.
const Bytes kTwoImages{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255};

Bytes with(std::size_t at, std::uint8_t value) {
  Bytes bytes = kTwoImages;
  bytes[at] = value;
  return bytes;
}

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

void write_gzip(const std::string& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
  gzclose(file);
}

}  // namespace

TEST_CASE("an IDX file is a shape and its values", "[idx]") {
  const IdxArray array = decode_idx(kTwoImages, "images");
  CHECK(array.shape == std::vector<std::int64_t>{2, 1, 3});
  CHECK(array.values == Bytes{1, 2, 3, 4, 5, 255});
}

TEST_CASE("a malformed IDX file is refused by name and reason", "[idx]") {
  CHECK_THROWS_WITH(decode_idx({}, "images"), Contains("images: it has 0 bytes, too few for an IDX header"));
  CHECK_THROWS_WITH(decode_idx(with(0, 0x1f), "images"), Contains("does not begin with two zero bytes"));
  CHECK_THROWS_WITH(decode_idx(with(2, 13), "images"), Contains("IDX type 13"));
  CHECK_THROWS_WITH(decode_idx(with(3, 0), "images"), Contains("header is cut short"));
  CHECK_THROWS_WITH(decode_idx(with(3, 255), "images"), Contains("header is cut short"));
  CHECK_THROWS_WITH(decode_idx(with(7, 0), "images"), Contains("a dimension of 0"));
  CHECK_THROWS_WITH(decode_idx(with(7, 3), "images"), Contains("promises 9 values but 6 follow"));
  const Bytes huge{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
  CHECK_THROWS_WITH(decode_idx(huge, "images"), Contains("a dimension of 4294967295"));
}

TEST_CASE("an IDX file cut anywhere is refused", "[idx]") {
  for (std::size_t size = 0; size < kTwoImages.size(); ++size)
    CHECK_THROWS_AS(decode_idx(Bytes(kTwoImages.begin(), kTwoImages.begin() + static_cast<std::ptrdiff_t>(size)), "x"),
                    Error);
}

TEST_CASE("IDX files are read gzipped or plain, with or without .gz in the name", "[idx]") {
  const TempFolder folder;
  folder.write("plain", text(kTwoImages));
  write_gzip(folder / "packed.gz", kTwoImages);
  write_gzip(folder / "unnamed", kTwoImages);
  for (const char* name : {"plain", "packed.gz", "unnamed"})
    CHECK(read_idx(folder / name).values == Bytes{1, 2, 3, 4, 5, 255});
}

TEST_CASE("a missing or torn data file is named in one sentence", "[idx]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(read_idx(folder / "none"),
                    Contains("cannot read the data file " + (folder / "none").string()) && Contains("--data"));
  write_gzip(folder / "torn.gz", Bytes(100000, 7));
  const std::string whole = test::read_file(folder / "torn.gz");
  folder.write("torn.gz", whole.substr(0, whole.size() / 2));
  CHECK_THROWS_WITH(read_idx(folder / "torn.gz"),
                    Contains("cannot read the data file " + (folder / "torn.gz").string()));
}
