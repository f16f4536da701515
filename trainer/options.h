// The command line of `train`: one struct, and everything that is wrong with it at once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

enum class DeviceChoice { automatic, cpu, cuda };

struct Options {
  int total_epochs = 10;
  // In epochs. A snapshot costs a few milliseconds here and spares the restarted run everything before it.
  int save_every = 1;
  int save_steps = 0;  // and after every so many steps; 0: after epochs only
  int keep = 2;        // snapshots; one may be damaged
  std::string model = "convnet";
  std::string dataset = "digits";
  std::string data;  // folder; empty: found by the data set's name
  // Per rank, as in PyTorch. 32 gives the 1,500 digits about 24 steps per epoch on two ranks.
  int batch_size = 32;
  double lr = 0.05;  // with momentum 0.9 the digits reach 0.95 in ten epochs, at one to four ranks
  double momentum = 0.9;
  std::string snapshot = "snapshot.pt";
  bool fresh = false;
  std::string init;  // file of weights to begin with; empty: drawn from the seed
  std::uint64_t seed = 0;
  DeviceChoice device = DeviceChoice::automatic;
  int log_every = 0;  // steps; 0: a line per epoch only
  int threads = 0;    // of each worker; 0: OMP_NUM_THREADS, else 1
};

std::vector<std::string> problems(const Options& options);

// Nothing to do but to leave: after --help, or with a command line that cannot be read. `text` says why.
struct Leave {
  int code;
  std::string text;
};

// `arguments` are those after the program's name.
struct ParsedOptions {
  Options options;
  std::optional<Leave> leave;
};
ParsedOptions parse_options(std::vector<std::string> arguments);

}  // namespace ddprun
