// The part of YAML that docs/containers/compose.yaml uses, into JSON: mappings by indentation, values in one line
// (texts, and flow values that are JSON), comments of whole lines, and anchors of mappings ("&node") that "<<: *node"
// takes in. Throws std::runtime_error, with the line, for what is none of that. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace ddprun::test {

nlohmann::json read_compose(const std::string& text);

}  // namespace ddprun::test
