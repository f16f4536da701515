// Converts the part of YAML that docs/containers/compose.yaml uses to JSON: mappings by indentation, values in one line
// (texts, and flow values that are JSON), whole-line comments, and anchors of mappings ("&node") that "<<: *node"
// merges. Throws std::runtime_error, with the line, for anything else. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace ddprun::test {

nlohmann::json read_compose(const std::string& text);

}  // namespace ddprun::test
