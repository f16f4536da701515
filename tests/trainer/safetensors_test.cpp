#include "trainer/ddp/snapshot/safetensors.h"

#include "rendezvous/base/error.h"
#include "tests/support/test.h"

namespace {

std::string length_word(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

std::string file(const std::string& header, std::size_t data_bytes) {
  return length_word(header.size()) + header + std::string(data_bytes, 'x');
}

std::string error_text(const std::string& bytes) {
  return test::error_text<Error>([&] { parse_safetensors(bytes, "the file"); });
}

// One tensor called a.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

// A line for each: name, type, shape, and its place behind the header.
std::string described(const std::vector<SafeTensor>& tensors, std::size_t header_bytes) {
  std::string text;
  for (const SafeTensor& tensor : tensors) {
    text += tensor.name + " " + tensor.dtype;
    for (const std::int64_t size : tensor.shape) text += " " + std::to_string(size);
    text += " at " + std::to_string(tensor.begin - header_bytes) + ": " + std::to_string(tensor.bytes) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a safetensors header says where each tensor lies", "[safetensors]") {
  const std::string bytes =
      file(R"({"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"__metadata__":{"format":"pt"},)"
           R"("a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},)"
           R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]}}  )",
           16);
  CHECK(described(parse_safetensors(bytes, "the file"), bytes.size() - 16) ==
        "a BF16 2 2 at 0: 8\nnone F32 0 3 at 8: 0\nb I64 at 8: 8\n");
  CHECK(parse_safetensors(file("{}", 0), "the file").empty());
}

TEST_CASE("a safetensors header comes back as it was written, and the data begins aligned", "[safetensors]") {
  const std::vector<SafeTensor> written{{"n", "I64", {}}, {"layer.\xc3\xa4 \"1\"", "F32", {3, 1}}, {"e", "U8", {0}}};
  const std::string header = safetensors_header(written);
  CHECK(header.size() % 8 == 0);
  CHECK_THAT(header, Contains(R"("__metadata__":{"format":"pt"})"));
  CHECK(described(parse_safetensors(header + std::string(20, 'x'), "the file"), header.size()) ==
        "n I64 at 0: 8\nlayer.\xc3\xa4 \"1\" F32 3 1 at 8: 12\ne U8 0 at 20: 0\n");
}

TEST_CASE("nothing in a safetensors header is trusted", "[safetensors]") {
  const std::string f32 = R"("F32")";
  const auto [bytes, why] = GENERATE_REF(table<std::string, std::string>({
      {"", "it is cut short"},
      {"\x02", "it is cut short"},
      {length_word(3) + "{}", "it is cut short"},
      {length_word(100'000'001) + "{}", "its header would be of 100000001 bytes"},
      {length_word(UINT64_MAX) + "{}", "its header would be of 18446744073709551615 bytes"},
      {file("", 0), "its header is not a JSON object"},
      {file(" {}", 0), "its header is not a JSON object"},
      {file("[]", 0), "its header is not a JSON object"},
      {file("{]", 0), "its header is not JSON"},
      {file("{}{}", 0), "its header is not JSON"},
      {file("{\"\xff\":1}", 0), "its header is not JSON"},
      {file(one(f32, "[[[[[1]]]]]", "[0,4]"), 4), "its header is nested too deeply"},
      {file("{\"a\":" + std::string(100'000, '['), 0), "its header is nested too deeply"},
      {file(R"({"a":1})", 0), "its tensor a has no dtype"},
      {file(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "its tensor a has no dtype"},
      {file(one("7", "[1]", "[0,4]"), 4), "its tensor a has no dtype"},
      {file(one(R"("F31")", "[1]", "[0,4]"), 4), "its tensor a has the unknown type F31"},
      {file(one(f32, "1", "[0,4]"), 4), "its tensor a has no shape"},
      {file(one(f32, "[-1]", "[0,4]"), 4), "its tensor a's shape is not a size"},
      {file(one(f32, "[1.0]", "[0,4]"), 4), "its tensor a's shape is not a size"},
      {file(one(f32, "[9223372036854775808]", "[0,4]"), 4), "its tensor a's shape is not a size"},
      {file(one(f32, "[99999999999999999999]", "[0,4]"), 4), "its tensor a's shape is not a size"},
      {file(one(f32, "[4294967296,4294967296]", "[0,0]"), 0), "its tensor a is larger than any memory"},
      {file(one(f32, "[0,4294967296,4294967296]", "[0,0]"), 0), "its tensor a is larger than any memory"},
      {file(one(f32, "[2305843009213693952]", "[0,0]"), 0), "its tensor a is larger than any memory"},
      {file(one(f32, "[1" + [] {
         std::string more;
         for (int i = 0; i < 64; ++i) more += ",1";
         return more;
       }() + "]", "[0,4]"), 4), "its tensor a has 65 dimensions"},
      {file(one(f32, "[1]", "{}"), 4), "its tensor a has no data_offsets"},
      {file(one(f32, "[1]", "[0]"), 4), "its tensor a has no data_offsets"},
      {file(one(f32, "[1]", "[0,4,8]"), 4), "its tensor a has no data_offsets"},
      {file(one(f32, "[1]", "[-4,0]"), 4), "its tensor a's place is not a size"},
      {file(one(f32, "[1]", "[4,0]"), 4), "its tensor a reaches outside the file, which is cut short or damaged"},
      {file(one(f32, "[1]", "[0,4]"), 3), "its tensor a reaches outside the file, which is cut short or damaged"},
      {file(one(f32, "[1]", "[9223372036854775803,9223372036854775807]"), 4), "its tensor a reaches outside the file, which is cut short or damaged"},
      {file(one(f32, "[1]", "[0,8]"), 8), "its tensor a has 8 bytes where its type and shape need others"},
      {file(one(f32, "[1]", "[0,4]"), 5), "it has 1 bytes that belong to no tensor"},
      {file(one(f32, "[1]", "[4,8]"), 8), "its tensor a comes after a gap"},
      {file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
            7),
       "its tensor b overlaps with the one before it"},
      {file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
            4),
       "its tensor b overlaps with the one before it"},
      {file(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
            0),
       "its header has a twice"},
      {file(R"({"__metadata__":[]})", 0), "its __metadata__ is not an object"},
      {file(R"({"__metadata__":{"format":1}})", 0), "its __metadata__ contains something other than strings"},
      {file("{\"new\\nline\":1}", 0), "its tensor new?line has no dtype"},
  }));
  INFO(bytes.substr(0, 300));
  CHECK(error_text(bytes) == "cannot read the file: " + why + ".");
}

TEST_CASE("a safetensors file with bytes altered at random is refused or still lies within itself", "[safetensors]") {
  const std::string good = file(
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})",
      32);
  REQUIRE(error_text(good).empty());
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 1 + round % 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random() % 128);
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    try {
      std::size_t data = 0;
      for (const auto& tensor : parse_safetensors(bytes, "the file")) {
        REQUIRE(tensor.begin + tensor.bytes <= bytes.size());
        data += tensor.bytes;
      }
      REQUIRE(data < bytes.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 2500);
}

TEST_CASE("a safetensors file is told from others by its first bytes", "[safetensors]") {
  CHECK(looks_like_safetensors(file("{}", 0)));
  CHECK(looks_like_safetensors(file("{]", 0)));
  CHECK_FALSE(looks_like_safetensors(""));
  CHECK_FALSE(looks_like_safetensors("PK\x03\x04 and what a zip archive goes on with"));
  CHECK_FALSE(looks_like_safetensors("a file {of text}"));
  CHECK_FALSE(looks_like_safetensors("[{\"a\": 1},{\"b\": 2}]"));
}
