// The data sets of images by name: how they are read, and their usual settings.
#pragma once
#include <string>

#include "trainer/data/augment.h"
#include "trainer/data/data_spec.h"
#include "trainer/data/images.h"

namespace ddprun::train {

struct ImageSet {
  ImageSplits (*read)(const DataSpec& spec);
  MeanStd mean_std;  // of all pixels of a channel in the training images
  bool flips;        // a mirrored image has the same class
};

// nullptr: there is no such data set of images.
const ImageSet* find_image_set(const std::string& name);

}  // namespace ddprun::train
