#include "trainer/data/image_sets.h"

#include <map>

#include "trainer/data/cifar10.h"
#include "trainer/data/data_file.h"
#include "trainer/data/mnist.h"
#include "trainer/data/synthetic.h"

namespace ddprun::train {
namespace {

ImageSplits read_idx_files(const DataSpec& spec) { return read_mnist(find_data(spec.name, spec.folder)); }
ImageSplits read_cifar10_files(const DataSpec& spec) { return read_cifar10(find_data(spec.name, spec.folder)); }

}  // namespace

const ImageSet* find_image_set(const std::string& name) {
  static const std::map<std::string, ImageSet> kImageSets{
      // Computed from data/digits.
      {"digits", {read_idx_files, {{0.3060F}, {0.3759F}}, false}},
      // As in pytorch/examples, mnist/main.py.
      {"mnist", {read_idx_files, {{0.1307F}, {0.3081F}}, false}},
      // Of the 50,000 training images, as torchvision's users write them.
      {"cifar10", {read_cifar10_files, {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}, true}},
      // By construction (synthetic.cpp), for any number of channels.
      {"synthetic", {make_synthetic, {{0.5F}, {0.2F}}, true}},
  };
  const auto found = kImageSets.find(name);
  return found == kImageSets.end() ? nullptr : &found->second;
}

}  // namespace ddprun::train
