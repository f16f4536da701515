#include "launcher/config/cli.h"
#include "launcher/config/options_file.h"
#include "launcher/jobs/job_file.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::fuzz;

namespace {

bool one_line(const std::string& sentence) {
  return !sentence.empty() && sentence.find('\n') == std::string::npos && sentence.find('\0') == std::string::npos;
}

}  // namespace

// A file of any bytes gives settings or sentences, alone and together with a command line.
DDPRUN_FUZZER(config_file) {
  const std::string text = text_of(data, size);
  for (const std::string& sentence : read_options_file("job.toml", text).mistakes)
    promise(sentence.starts_with("job.toml") && one_line(sentence), "a mistake is one line that names the file");

  const DescribedJob job = read_job_description({"job.toml", "/", text});
  for (const std::string& sentence : job.mistakes) promise(one_line(sentence), "a mistake is one line");
  promise(!job.mistakes.empty() || read_options_file("ddprun.toml", job.job.config).mistakes.empty(),
          "what a job's file becomes is a configuration file");

  Inputs inputs;
  inputs.read_file = [&](const std::string&) { return FileText{text}; };
  const CommandLine result = read_command_line({"--config", "job.toml", "true"}, inputs);
  for (const std::string& sentence : result.mistakes) promise(one_line(sentence), "a mistake is one line");
  return 0;
}
