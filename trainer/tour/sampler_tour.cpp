#include "ddprun/collectives.h"
#include "trainer/tour/deal.h"
#include "trainer/tour/stage.h"

namespace ddprun::train {

void show_sampler(Stage& stage) {
  const auto deals = deals_of_rank(stage.rank(), stage.world());
  Shares own;  // this rank's share of each deal
  for (const Deal& deal : deals) own.push_back(deal.shares.front());
  std::vector<Shares> by_rank;
  for (const auto& shares : all_gather_object(own, stage.group)) by_rank.push_back(shares.get<Shares>());
  const auto all = gathered(deals, by_rank);

  stage.say("The data set has " + std::to_string(kTourSamples) +
            " samples, numbered from 0. Each line is what a rank's own sampler gave it, in its order;\n"
            "a star marks a sample that was dealt before in the same epoch.\n");
  for (const Deal& deal : all) stage.say(text_of(deal));
  const auto wrongs = wrongs_of(all);
  for (const std::string& sentence : wrongs) stage.wrong(sentence);
  if (wrongs.empty()) stage.say("All ranks' shares are equally long, and each sample is dealt where it has to be.");
  stage.draw([&] { return picture_of(all); });
}

}  // namespace ddprun::train
