#include <cstdio>
#include <exception>

#include "agent/keeper.h"
#include "launcher/cli.h"
#include "launcher/exit_codes.h"
#include "launcher/launch.h"
#include "rendezvous/error.h"

namespace ddprun {
namespace {

int complain(const std::vector<std::string>& sentences, ExitCode code) {
  for (const std::string& sentence : sentences) std::fprintf(stderr, "ddprun: %s\n", sentence.c_str());
  return code;
}

int run(const std::vector<std::string>& arguments, int keeper_pidfd) {
  const auto parsed = parse(arguments);
  if (const auto* answer = std::get_if<Answer>(&parsed)) return std::fputs(answer->text.c_str(), stdout), kSuccess;
  if (const auto* mistakes = std::get_if<Mistakes>(&parsed)) return complain(mistakes->sentences, kUsage);
  const auto& config = std::get<Config>(parsed);
  const Machine machine = this_machine();
  if (const auto sentences = problems(config, machine); !sentences.empty()) return complain(sentences, kUsage);
  return launch(config, machine, keeper_pidfd);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  try {
    const int keeper_pidfd = ddprun::continue_under_keeper();
    return ddprun::run({argv + 1, argv + argc}, keeper_pidfd);
  } catch (const ddprun::UsageError& error) {
    return ddprun::complain({error.what()}, ddprun::kUsage);
  } catch (const ddprun::Error& error) {
    return ddprun::complain({error.what()}, ddprun::kRendezvousImpossible);
  } catch (const std::exception& error) {
    return ddprun::complain({error.what()}, ddprun::kInternalError);
  }
}
