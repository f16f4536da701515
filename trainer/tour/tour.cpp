#include "trainer/tour/tour.h"

#include <map>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/replace_file.h"
#include "trainer/tour/tour_context.h"

namespace ddprun::train {
namespace {

const std::map<std::string, TourFunction> kTourFunctions{{"collectives", show_collectives},
                                                         {"sampler", show_sampler},
                                                         {"sync", show_sync},
                                                         {"reduce", show_reduce},
                                                         {"dp-vs-ddp", show_dp_vs_ddp}};

void check_request(const std::string& name, const TourOptions& options) {
  const Tour* tour = find_tour(name);
  if (!tour)
    throw UsageError("cannot run the tour " + name, "there is no such tour", "The tours are:\n" + list_of_tours());
  if (!options.svg.empty() && !tour->draws)
    throw UsageError("cannot draw the tour " + name, "it has no picture", "Leave the picture out.");
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string nested_text(const at::Tensor& tensor) {  // of doubles, on the CPU
  if (tensor.dim() == 0) return number_text(tensor.item<double>());
  std::string text;
  for (std::int64_t i = 0; i < tensor.size(0); ++i) text += (i ? ", " : "") + nested_text(tensor[i]);
  return "[" + text + "]";
}

}  // namespace

std::string text_of(const at::Tensor& tensor) { return nested_text(tensor.detach().to(at::kCPU).to(at::kDouble)); }

std::string text_of(const std::vector<at::Tensor>& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + text_of(tensor);
  return text.empty() ? "(nothing)" : text;
}

void TourContext::say(const std::string& text) const {
  if (!is_main()) return;
  std::fprintf(options_.out, "%s\n", text.c_str());
  std::fflush(options_.out);
}

// Must not throw on a disk error, as the other ranks wait for the end.
void TourContext::draw(const std::function<std::string()>& svg) try {
  if (!is_main() || options_.svg.empty()) return;
  replace_file(options_.svg, {svg()}, "the picture");
  say("The picture is in " + options_.svg + ".");
} catch (const Error& error) {
  report_error(error.what());
}

void TourContext::show(const std::string& name, const std::string& what, const OperationResult& shown) {
  const auto gathered = all_gather_object({shown.before, shown.after, shown.expected}, group);
  std::vector<OperationResult> by_rank;
  for (const auto& one : gathered) by_rank.push_back({one.at(0), one.at(1), one.at(2)});
  const OperationReport report = operation_report(name, what, by_rank);
  ++shown_;
  if (!report.right) ++errors_;
  say(report.text);
}

void TourContext::report_error(const std::string& sentence) {
  if (!is_main()) return;
  ++errors_;
  say("WRONG: " + sentence);
}

int run_tour_function(TourFunction show, const std::string& name, const TourOptions& options, at::Device device) {
  TourContext context(init_process_group({.backend = device.is_cuda() ? Backend::nccl : Backend::gloo}), device,
                      options);
  context.say("The tour " + name + ", by " + counted(static_cast<std::size_t>(context.world()), "rank") + " over " +
              (device.is_cuda() ? "NCCL" : "gloo") + ".\n");
  show(context);
  const int code = broadcast_object(context.errors() ? 1 : 0, 0, context.group);
  destroy_process_group();
  return code;
}

int run_tour(const std::string& name, const TourOptions& options, at::Device device) {
  check_request(name, options);
  return run_tour_function(kTourFunctions.at(name), name, options, device);
}

}  // namespace ddprun::train
