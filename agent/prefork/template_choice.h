// Whether a program's workers can be forked from a template (--prefork).
#pragma once
#include <string>

namespace ddprun::agent {

// Why not, after "as"; empty: they can. `name`: the program as the user typed it. `program`: its path. `python`: it is
// an interpreter that runs a script.
std::string why_no_template(const std::string& name, const std::string& program, bool python);

}  // namespace ddprun::agent
