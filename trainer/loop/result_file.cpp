#include "trainer/loop/result_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "trainer/ddp/snapshot/files.h"
#include "trainer/ddp/snapshot/replace_file.h"

namespace ddprun::train {

void check_result_file(const std::string& path) {
  const auto refuse = [&](const std::string& why, const std::string& remedy = "Name another place.") {
    throw UsageError("cannot write " + path, why, remedy);
  };
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) refuse("it is a folder");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) refuse("it is not a regular file");
  try {
    disk().check_writable(folder_of(path));
  } catch (const std::system_error& error) {
    const Refusal refusal = refusal_of(path, error.code().value());
    if (refusal.of_name) refuse(refusal.why, refusal.remedy);
    throw Error("cannot write " + path, refusal.why, refusal.remedy);
  }
}

void write_result_file(const std::string& path, const nlohmann::ordered_json& result) {
  check(result.is_object(), "a result is one JSON object");
  const std::string text = json_text(result, {.indent = 2}) + "\n";
  replace_file(path, {text}, "the result file");
}

}  // namespace ddprun::train
