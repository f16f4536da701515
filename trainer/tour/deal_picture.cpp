#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "trainer/tour/deal.h"
#include "trainer/tour/operation_report.h"
#include "trainer/tour/svg.h"

namespace ddprun::train {
namespace {

constexpr std::size_t kRanksDrawnMax = 16;
constexpr double kCell = 30, kLeft = 84, kMargin = 20, kTitleHeight = 28, kGap = 22, kHead = 62;
constexpr std::string_view kRepeated = "#d55e00";  // Okabe and Ito's vermilion
constexpr std::string_view kMuted = "#555555";
using Anchor = TextStyle::Anchor;

// Five colours of viridis (matplotlib's map): brightness grows with the number, so that everybody can distinguish them.
std::string colour_of(std::int64_t sample, std::int64_t samples) {
  constexpr std::array<std::array<int, 3>, 5> kViridis{
      {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};
  const double place = 4.0 * static_cast<double>(sample) / static_cast<double>(std::max<std::int64_t>(samples - 1, 1));
  const auto low = std::min<std::size_t>(static_cast<std::size_t>(place), 3);
  const double share = place - static_cast<double>(low);
  std::array<int, 3> mixed{};
  for (std::size_t i = 0; i < 3; ++i)
    mixed[i] = static_cast<int>(std::lround(kViridis[low][i] * (1 - share) + kViridis[low + 1][i] * share));
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mixed[0] & 0xff, mixed[1] & 0xff, mixed[2] & 0xff);
  return text;
}

std::size_t rows_drawn(const Deal& deal) { return std::min(deal.shares.size(), kRanksDrawnMax); }
bool cut_short(const Deal& deal) { return deal.shares.size() > kRanksDrawnMax; }

double height_of(const Deal& deal) {
  return kTitleHeight + kCell * static_cast<double>(rows_drawn(deal) + cut_short(deal)) + kGap;
}

void draw_cell(Svg& svg, double x, double y, std::int64_t sample, std::int64_t samples, bool again) {
  const std::string colour = colour_of(sample, samples);
  svg.rect({x + 1, y + 1, kCell - 2, kCell - 2}, colour, again ? kRepeated : "", 3.5);
  svg.text(x + kCell / 2, y + kCell / 2 + 4.5, std::to_string(sample),
           {.size = 12, .anchor = Anchor::middle, .colour = text_colour_on(colour)});
}

void draw_deal(Svg& svg, double x, double y, const Deal& deal) {
  svg.text(x + kMargin, y + 16, deal.title, {.size = 14, .bold = true});
  const auto again = dealt_before(deal.shares);
  y += kTitleHeight;
  for (std::size_t rank = 0; rank < rows_drawn(deal); ++rank, y += kCell) {
    svg.text(x + kLeft - 10, y + kCell / 2 + 4.5, "rank " + std::to_string(rank), {.anchor = Anchor::end});
    for (std::size_t i = 0; i < deal.shares[rank].size(); ++i)
      draw_cell(svg, x + kLeft + kCell * static_cast<double>(i), y, deal.shares[rank][i], deal.samples, again[rank][i]);
  }
  if (cut_short(deal))
    svg.text(x + kLeft, y + kCell / 2 + 4.5, "and " + counted(deal.shares.size() - kRanksDrawnMax, "more rank"),
             {.colour = kMuted});
}

void draw_head(Svg& svg) {
  svg.text(kMargin, 28, "Which rank gets which sample", {.size = 17, .bold = true});
  svg.rect({kMargin + 1, 40, 15, 15}, colour_of(4, kTourSamples), kRepeated, 3.5);
  svg.text(kMargin + 24, 52, "framed: assigned before in the same epoch", {.size = 12, .colour = kMuted});
}

}  // namespace

std::string picture_of(const std::vector<Deal>& deals) {
  constexpr std::size_t kColumns = 2;
  // As wide as the usual data set needs at least, for the heading.
  const double column = kLeft + kCell * static_cast<double>(std::max(deals.front().samples, kTourSamples)) + kMargin;
  double height = kHead + kMargin;
  for (std::size_t i = 0; i < deals.size(); i += kColumns) height += height_of(deals[i]);
  Svg svg(kColumns * column, height, "Which rank gets which sample, with and without a DistributedSampler");
  draw_head(svg);
  double y = kHead + kMargin / 2;
  for (std::size_t i = 0; i < deals.size(); ++i) {
    draw_deal(svg, column * static_cast<double>(i % kColumns), y, deals[i]);
    if (i % kColumns == kColumns - 1) y += height_of(deals[i]);  // all have the same number of ranks
  }
  return svg.str();
}

}  // namespace ddprun::train
