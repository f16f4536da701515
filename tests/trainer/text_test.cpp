#include "trainer/data/text.h"

#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"

namespace {

const std::string kAllLengths = "aé€😀";  // one to four bytes

std::string refusal(const std::string& bytes) {
  return test::error_text<Error>([&] { decode_utf8(bytes, "novel"); });
}

std::string read_refusal(const std::string& path, const Windows& windows) {
  return test::error_text<Error>([&] { read_text(path, windows); });
}

}  // namespace

TEST_CASE("a text's characters are Unicode's, whatever their bytes", "[text]") {
  CHECK(decode_utf8(kAllLengths, "novel") == U"aé€😀");
  CHECK(decode_utf8("", "novel").empty());
  CHECK(decode_utf8("\xef\xbb\xbf\r\n", "novel") == U"\ufeff\r\n");
  CHECK(decode_utf8("\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80", "novel") == U"\U0010ffff\ud7ff\ue000");
}

TEST_CASE("the vocabulary is the sorted set of the characters", "[text]") {
  const Vocabulary vocabulary(U"to be, or nót 😀 to be");
  CHECK(vocabulary.characters() == U" ,benortó😀");
  const auto ids = vocabulary.ids_of(U"bóot😀");
  CHECK(ids == std::vector<std::int32_t>{2, 8, 5, 7, 9});
  CHECK(vocabulary.text_of(std::vector<std::int64_t>(ids.begin(), ids.end())) == "bóot😀");
  CHECK_THROWS_WITH(vocabulary.ids_of(U"be x"), Contains("its character 3, 'x', is not among the 10"));
  CHECK_THROWS_WITH(vocabulary.ids_of(U"\U0010ffff"), Contains("its character 0"));
  CHECK_THROWS_WITH(vocabulary.text_of(std::vector<std::int64_t>{1, 10}), Contains("10 is not one of the 10"));
  CHECK_THROWS_WITH(vocabulary.text_of(std::vector<std::int64_t>{-1}), Contains("-1 is not one"));
  CHECK_THROWS_WITH(Vocabulary().ids_of(U"a"), Contains("is not among the 0"));
}

TEST_CASE("a text that is no UTF-8 is refused at its byte", "[text]") {
  CHECK_THAT(refusal("ab\xff"), Contains("the text novel: the bytes from offset 2 on are not a character in UTF-8"));
  CHECK_THAT(refusal("a\xe2\x82"), Contains("offset 1"));     // cut short
  CHECK_THAT(refusal("é\xc0\xaf"), Contains("offset 2"));     // a slash, in two bytes
  CHECK_THAT(refusal("\xe0\x9f\xbf"), Contains("offset 0"));  // in three where two would do
  CHECK_THAT(refusal("\xf0\x8f\xbf\xbf"), Contains("offset 0"));
  CHECK_THAT(refusal("\xed\xa0\x80"), Contains("offset 0"));      // half of a pair
  CHECK_THAT(refusal("\xf4\x90\x80\x80"), Contains("offset 0"));  // past the last one
  CHECK_THAT(refusal("ab\x80"), Contains("offset 2"));
}

TEST_CASE("samples of a text are counted so that each has its target", "[text]") {
  const auto count = [](std::int64_t context, std::int64_t stride, std::int64_t ids) {
    return Windows{context, stride}.count(ids);
  };
  CHECK(count(4, 4, 4) == 0);
  CHECK(count(4, 4, 5) == 1);
  CHECK(count(4, 4, 8) == 1);
  CHECK(count(4, 4, 9) == 2);
  CHECK(count(4, 1, 9) == 5);
  CHECK(count(4, 100, 104) == 1);
  CHECK(count(4, 100, 105) == 2);
  CHECK(count(INT64_MAX, 1, 100) == 0);
}

TEST_CASE("a text's last tenth is to test on", "[text]") {
  const TempFolder folder;
  const Text text = read_text(folder.write("t", "abcdefghijklmnopqrstuvwxyz01234"), {.context = 2, .stride = 2});  // 31
  CHECK(text.train.size() == 27);
  CHECK(text.test == text.vocabulary.ids_of(U"1234"));
}

TEST_CASE("a text that holds no sample, or is none, is refused by its file", "[text]") {
  const TempFolder folder;
  test::make_text(folder / "short", 100, 1);
  CHECK_THAT(read_refusal(folder / "short", {.context = 10, .stride = 10}),
             Contains((folder / "short").string() + ": it has 10 characters to test on, and one sample takes 10") &&
                 Contains("--data"));
  CHECK(read_refusal(folder / "short", {.context = 9, .stride = 9}).empty());
  CHECK_THAT(read_refusal(folder / "short", {.context = 90, .stride = 1}), Contains("90 characters to train on"));
  CHECK_THAT(read_refusal(folder / "short", {.context = 0, .stride = 1}), Contains("the context is 0"));
  CHECK_THAT(read_refusal(folder / "short", {.context = 5, .stride = -1}), Contains("the stride is -1"));
  CHECK_THAT(read_refusal(folder.write("empty", ""), {.context = 1, .stride = 1}),
             Contains("0 characters to train on"));
  CHECK_THAT(read_refusal(folder / "none", {}), Contains((folder / "none").string() + ": No such file"));
  CHECK_THAT(read_refusal(folder.path(), {}), Contains("it is a folder"));
  CHECK_THAT(read_refusal(folder.write("odd", "abc\xff"), {}), Contains((folder / "odd").string()));
}

TEST_CASE("the text that comes with ddprun is plain English", "[text]") {
  const Text text = read_text(test::source_folder() + "/data/text/input.txt", {.context = 256, .stride = 256});
  CHECK(text.train.size() + text.test.size() > 20'000);
  CHECK(text.vocabulary.size() < 80);
  CHECK(text.vocabulary.characters().back() < 0x80);
}
