#include "trainer/tour/tour_line.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "rendezvous/base/spelling.h"
#include "trainer/config/parse_words.h"
#include "trainer/tour/tours.h"

namespace ddprun::train {
namespace {

std::string unknown_tour(const std::string& name) {
  std::vector<std::string> names;
  for (const Tour& tour : tours()) names.push_back(tour.name);
  const std::string hint = did_you_mean(name, names);
  return "train: there is no tour '" + visible(name) + "'." +
         (hint.empty() ? " There are " + listed(names, "and") + "." : hint) + "\n";
}

}  // namespace

TourLine read_tour_line(std::vector<std::string> arguments) {
  TourLine line;
  CLI::App app(
      "Shows what the ranks of a job do together, by a small run; best run with several ranks.\n\n"
      "  ddprun --nproc_per_node=4 train tour NAME\n\n" +
      list_of_tours());
  app.add_option("NAME", line.name, "one of these");
  app.add_option("--svg", line.svg, "draws a picture of it, where the tour has one")->type_name("FILE");
  const auto add_number = [&](const char* names, std::int64_t& value, const char* help) {
    return app.add_option(names, value, help)
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{1}, kTourSamplesMax));
  };
  const CLI::Option* samples =
      add_number("--samples", line.samples, "with sampler: how many samples the data set has, up to 100");
  const CLI::Option* batch_size = add_number("-b,--batch-size,--batch_size", line.batch_size,
                                             "with sampler: how many of them a rank takes in a step");
  app.add_option("--device", line.device, "auto, cpu or cuda")
      ->type_name("DEVICE")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}).description(""));
  line.early_exit =
      parse_words(app, "train tour [NAME] [options]", std::move(arguments), [](const std::string& sentence) {
        return EarlyExit{2, "train: " + sentence + " `train tour --help` lists what there is.\n"};
      });
  if (line.early_exit) return line;
  const Tour* tour = find_tour(line.name);
  if (line.name.empty())
    line.early_exit = EarlyExit{0, app.help()};
  else if (!tour)
    line.early_exit = EarlyExit{2, unknown_tour(line.name)};
  else if (!line.svg.empty() && !tour->draws)
    line.early_exit = EarlyExit{2, "train: the tour " + line.name + " draws no picture: leave out --svg.\n"};
  else if ((*samples || *batch_size) && !tour->deals)
    line.early_exit = EarlyExit{2, "train: the tour " + line.name +
                                       " deals no samples: leave out --samples and --batch-size, or choose sampler.\n"};
  return line;
}

}  // namespace ddprun::train
