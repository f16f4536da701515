// Where a system keeps the certificate authorities that it trusts. OpenSSL knows one place, that of the system it was
// built for.
#pragma once

#include <string>

namespace ddprun::rendezvous {

// The file with the system's authorities, where neither of OpenSSL's own places exists. Empty: there is no need, or no
// such file. The known files are looked for below `root`.
std::string authorities_elsewhere(const std::string& own_file, const std::string& own_folder,
                                  const std::string& root = {});

}  // namespace ddprun::rendezvous
