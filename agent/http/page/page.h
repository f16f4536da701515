// The job's page, as CMake puts it together from the files in this folder.
#pragma once
#include <string>

namespace ddprun::agent {

// What a running job serves. It holds nothing of the job, which page.js asks for.
const std::string& page_shell();
// Its Content-Security-Policy: its own style and script, and its own server; nothing else.
const std::string& page_policy();
// The same page with its data inside, JSON that page.js takes: a file that needs no server.
std::string page_with(const std::string& data);

}  // namespace ddprun::agent
