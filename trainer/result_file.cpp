#include "trainer/result_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "rendezvous/error.h"
#include "trainer/ddp/files.h"
#include "trainer/ddp/replace_file.h"

namespace ddprun {

void check_result_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error("cannot write the result file " + path, why, "Name another place.");
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse("it is a folder");
  try {
    disk().check_writable(folder_of(path));
  } catch (const std::system_error& error) {
    refuse(error.code().message());
  }
}

void write_result_file(const std::string& path, const nlohmann::ordered_json& result) {
  check(result.is_object(), "a result is one JSON object");
  const std::string text = result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  replace_file(path, {text}, "the result file");
}

}  // namespace ddprun
