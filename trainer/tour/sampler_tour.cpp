#include "ddprun/collectives.h"
#include "trainer/tour/deal.h"
#include "trainer/tour/tour_context.h"

namespace ddprun::train {

void show_sampler(TourContext& context) {
  const auto deals = deals_of_rank(context.rank(), context.world(), context.options().samples);
  Shares own;  // this rank's share of each deal
  for (const Deal& deal : deals) own.push_back(deal.shares.front());
  std::vector<Shares> by_rank;
  for (const auto& shares : all_gather_object(own, context.group)) by_rank.push_back(shares.get<Shares>());
  const auto all = gathered(deals, by_rank);

  context.say("The data set has " + std::to_string(context.options().samples) +
              " samples, numbered from 0. Each line is what a rank's own\n"
              "sampler gave it, in its order; a star marks a sample that was assigned before in\nthe same epoch.\n");
  for (const Deal& deal : all) context.say(text_of(deal));
  context.say(batches_text(all[2], context.options().batch_size));
  const auto errors = errors_of(all);
  for (const std::string& sentence : errors) context.report_error(sentence);
  if (errors.empty()) context.say("All shares are equally long, and each sample is assigned where it has to be.");
  context.draw([&] { return picture_of(all); });
}

}  // namespace ddprun::train
