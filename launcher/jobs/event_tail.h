// Reads the lines of JSON that another process appends to a file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace ddprun::launcher {

class EventTail {
 public:
  // Begins at the file's present end: earlier starts of a job have written what comes before.
  explicit EventTail(std::filesystem::path file);
  // Calls `take` with each whole line since the last call; what is not JSON is left out. True: there was one.
  bool read(const std::function<void(const nlohmann::json&)>& take);

 private:
  std::filesystem::path file_;
  std::uint64_t read_ = 0;
  std::string held_;  // of a line without its end
};

}  // namespace ddprun::launcher
