// Which of LibTorch's exceptions mean a lost peer, and what is said about them.
#include "trainer/ddp/group/lost_peer.h"

#include <c10/util/Exception.h>

#include "ddprun/process_group.h"
#include "tests/support/test.h"

namespace {

c10::SourceLocation here() { return {"function", "file", 1}; }

// As ProcessGroupNCCL.cpp makes it.
c10::DistBackendError nccl_error(const std::string& result, const std::string& last) {
  return {here(),
          "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), "
          "NCCL version 2.27.5\n" +
              result + ": Call to CUDA function failed.\nLast error:\n" + last};
}

}  // namespace

TEST_CASE("the store's, the network's and NCCL's remote errors are lost peers, and NCCL's others are not",
          "[lost_peer]") {
  CHECK(is_loss_of_peer(PeerLost("gone")));
  CHECK(is_loss_of_peer(c10::DistStoreError(here(), "timeout")));
  CHECK(is_loss_of_peer(c10::DistNetworkError(here(), "connection reset")));
  CHECK(is_loss_of_peer(nccl_error("ncclRemoteError", "socketProgress: Connection closed by remote peer")));
  CHECK(is_loss_of_peer(c10::DistBackendError(
      here(),
      "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3) ran for 600000 milliseconds")));

  CHECK_FALSE(is_loss_of_peer(nccl_error("ncclUnhandledCudaError", "Cuda failure 2 'out of memory'")));
  CHECK_FALSE(is_loss_of_peer(nccl_error("ncclInvalidUsage", "Duplicate GPU detected")));
  CHECK_FALSE(
      is_loss_of_peer(c10::DistBackendError(here(), "ProcessGroupNCCL is only supported with GPUs, no GPUs found!")));
  CHECK_FALSE(is_loss_of_peer(c10::Error(here(), "CUDA error: out of memory")));
  CHECK_FALSE(is_loss_of_peer(std::runtime_error("cannot read data/gloo/a.bin")));
}

TEST_CASE("the reason has NCCL's last error, and neither gloo's place nor LibTorch's backtrace", "[lost_peer]") {
  CHECK(reason(nccl_error("ncclUnhandledCudaError", "Cuda failure 2 'out of memory'")) ==
        "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), "
        "NCCL version 2.27.5: Cuda failure 2 'out of memory'");
  CHECK(reason(nccl_error("ncclInvalidUsage", "")) ==
        "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), "
        "NCCL version 2.27.5");
  CHECK(reason(std::runtime_error("[gloo/transport/tcp/pair.cc:547] Connection closed by peer. \nmore")) ==
        "Connection closed by peer");
  CHECK(
      reason(c10::Error(here(), "CUDA error: out of memory\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1")) ==
      "CUDA error: out of memory");
}
