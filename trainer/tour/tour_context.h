// What the tours share: a group, and output that only rank 0 prints.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/process_group.h"
#include "trainer/tour/operation_report.h"
#include "trainer/tour/tour.h"

namespace ddprun::train {

class TourContext {
 public:
  TourContext(const ProcessGroup& group, at::Device device, const TourOptions& options)
      : group(group), device(device), options_(options) {}

  const ProcessGroup group;
  const at::Device device;
  int rank() const { return group.rank(); }
  int world() const { return group.world_size(); }
  bool is_main() const { return rank() == 0; }
  const TourOptions& options() const { return options_; }

  // Prints on rank 0 only.
  void say(const std::string& text) const;
  // Writes the picture if one is requested. A failure counts as an error.
  void draw(const std::function<std::string()>& svg);
  // Rank 0 prints the report of all ranks. Every rank calls it.
  void show(const std::string& name, const std::string& what, const OperationResult& shown);
  // Rank 0 prints it and counts it for the exit code.
  void report_error(const std::string& sentence);

  int shown() const { return shown_; }
  int errors() const { return errors_; }  // known on rank 0

 private:
  const TourOptions& options_;
  int shown_ = 0, errors_ = 0;
};

// [1, 2.5], with six digits; nested like the tensor.
std::string text_of(const at::Tensor& tensor);
std::string text_of(const std::vector<at::Tensor>& tensors);  // [1], [2]; (nothing)

using TourFunction = void (*)(TourContext& context);

// The part of run_tour() after finding the tour.
int run_tour_function(TourFunction show, const std::string& name, const TourOptions& options, at::Device device);

// The tours. Every rank calls them.
void show_collectives(TourContext& context);
void show_sampler(TourContext& context);
void show_sync(TourContext& context);
void show_reduce(TourContext& context);
void show_dp_vs_ddp(TourContext& context);

}  // namespace ddprun::train
