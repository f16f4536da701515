#include "agent/diagnosis/error_file.h"

#include <nlohmann/json.hpp>

#include "tests/support/test.h"

using Json = nlohmann::json;

namespace {

const WorkerEndFacts kSegfault{
    {.signal = SIGSEGV}, 4711, WallTime(1'700'000'000s), "rank 1 was killed by SIGSEGV", "last\nwords\n"};

}  // namespace

TEST_CASE("error files of both forms are read, with their time", "[error_file]") {
  const WallTime time(1'700'000'000s);
  using Row = std::tuple<std::string, std::string, std::optional<WallTime>>;
  for (const auto& [content, text, when] :
       {Row{R"({"message": {"message": "RuntimeError: boom",
                            "extraInfo": {"py_callstack": "Traceback: boom", "timestamp": "1700000000"}}})",
            "Traceback: boom", time},
        Row{R"({"message": "text", "timestamp": 1700000000})", "text", time},
        Row{R"({"message": {"message": "RuntimeError: boom"}})", "RuntimeError: boom", {}}}) {
    CAPTURE(content);
    CHECK(error_in(content).text == text);
    CHECK((error_in(content).when == when));
  }
}

TEST_CASE("an error file that is no such JSON is shown as it is, bounded", "[error_file]") {
  for (const std::string content : {R"({"message": {"mess)", R"({"message": 3})", R"({"message": {"extraInfo": 3}})",
                                    "plain words", "[1, 2]", "null"})
    CHECK(error_in(content).text == content);
  CHECK(error_in(std::string(1'000'000, 'x')).text.size() == 4096);
  CHECK(error_in(std::string(1'000'000, '[')).text.size() == 4096);
}

TEST_CASE("a time that is none is left out", "[error_file]") {
  for (const char* time : {"-1", "1e300", "\"soon\"", "null", "\"1e400\"", "{}"}) {
    CAPTURE(time);
    CHECK_FALSE(error_in(std::string(R"({"message": "text", "timestamp": )") + time + "}").when);
  }
}

TEST_CASE("ddprun's own error file is the worker's with the exit code in its message, as torchrun writes it",
          "[error_file]") {
  const auto [worker, own] = GENERATE(table<std::string, std::string>({
      {R"({"message": {"message": "E: boom", "extraInfo": {"py_callstack": "T", "timestamp": "17"}}})",
       R"({"message": {"message": "E: boom", "errorCode": -11,
                       "extraInfo": {"py_callstack": "T", "timestamp": "17"}}})"},
      {"", R"({"message": {"message": "rank 1 was killed by SIGSEGV", "errorCode": -11,
                           "extraInfo": {"py_callstack": "last\nwords\n", "timestamp": "1700000000"}}})"},
  }));
  CHECK(Json::parse(parent_error_file(worker, kSegfault)) == Json::parse(own));
}

TEST_CASE("a message that is a text stays as it is", "[error_file]") {
  const std::string content = R"({"message":"text","timestamp":1700000000})";
  CHECK(parent_error_file(content, kSegfault) == content);
}

TEST_CASE("a broken error file goes into ddprun's own as text", "[error_file]") {
  const Json file = Json::parse(parent_error_file("{\"message\": \"\xff", kSegfault));
  CHECK(file["message"]["extraInfo"]["py_callstack"] == "{\"message\": \"\xef\xbf\xbd");
  CHECK(file["message"]["errorCode"] == -11);
}

TEST_CASE("a line for people has no control characters, no colours and an end", "[error_file]") {
  CHECK(printable_line("\x1b[1;31mred\x1b[0m \x1b]0;title\x07"
                       "end",
                       80) == "red end");
  CHECK(printable_line("10%\r20%\r", 80) == "20%");
  CHECK(printable_line("\r\r", 80).empty());
  CHECK(printable_line("a\tb\x01\x7f", 80) == "a    b");
  CHECK(printable_line("\x1b", 80).empty());
  CHECK(printable_line("\x1b[", 80).empty());
  CHECK(printable_line("\x1b]unended", 80).empty());
  CHECK(printable_line("\xff\xfe", 80) == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(printable_line("12345\xc3\xa4 and more", 6) == "12345 ...");
}
