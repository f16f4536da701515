#include "trainer/ddp/group/lost_peer.h"

#include <c10/util/Exception.h>
#include <gloo/common/error.h>

#include <string_view>

#include "ddprun/process_group.h"

namespace ddprun {
namespace {

std::string text_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch ? torch->what_without_backtrace() : error.what();
}

std::string line_at(const std::string& text, std::size_t at) {
  std::string line = text.substr(at, text.find('\n', at) - at);
  while (!line.empty() && (line.back() == '.' || line.back() == ' ')) line.pop_back();
  return line;
}

// All of NCCL's results have one type. Its text names the result (NCCLUtils.cpp, getNcclErrorDetailStr), the watchdog's
// the time-out (ProcessGroupNCCL.cpp), and that of a call after an abort, which is made where a peer is lost, the abort
// (NCCLUtils.cpp, NCCLComm::getNcclComm).
bool is_remote(const c10::DistBackendError& error) {
  const std::string_view text = error.what_without_backtrace();
  return text.find("ncclRemoteError") != text.npos || text.find("collective operation timeout") != text.npos ||
         text.find("communicator was aborted") != text.npos;
}

}  // namespace

bool is_loss_of_peer(const std::exception& error) {
  if (const auto* backend = dynamic_cast<const c10::DistBackendError*>(&error)) return is_remote(*backend);
  return dynamic_cast<const PeerLost*>(&error) || dynamic_cast<const c10::DistStoreError*>(&error) ||
         dynamic_cast<const c10::DistNetworkError*>(&error) || dynamic_cast<const gloo::IoException*>(&error);
}

std::string reason(const std::exception& error) {
  constexpr std::string_view kLastError = "\nLast error:\n";
  const std::string text = text_of(error);
  const auto place = text.starts_with('[') ? text.substr(0, text.find('\n')).find("] ") : std::string::npos;
  const bool only_place = place == std::string::npos || place + 2 >= text.size();
  std::string out = line_at(text, only_place ? 0 : place + 2);
  if (const auto last = text.find(kLastError); last != text.npos)
    if (const std::string line = line_at(text, last + kLastError.size()); !line.empty()) out += ": " + line;
  return out;
}

}  // namespace ddprun
