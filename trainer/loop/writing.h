// Text by a model that predicts the next character (the model gpt).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/config/write_line.h"
#include "trainer/loop/next_character.h"
#include "trainer/loop/run.h"
#include "trainer/models/models.h"

namespace ddprun::train {

struct Writing {
  std::int64_t context = 64;  // characters that the model sees
  std::int64_t length = 400;
  Sampling sampling = {};
  std::uint64_t seed = 0;
};

// The ids that follow `text`, which is not empty. `each` gets every one as it is chosen, and may end the text by
// returning false. The model is as it was afterwards, and no generator but an own one is used.
std::vector<std::int64_t> continue_text(Model& model, std::vector<std::int64_t> text, const Writing& writing,
                                        const std::function<bool(std::int64_t id)>& each = {});

// `train write`: prints the prompt and what follows. Throws UsageError for a snapshot that is no text model's, and for
// a prompt with characters that it does not know.
void write_text(const WriteLine& line, bool on_terminal);

// A few characters of the run's model, on a terminal only.
void show_text(Run& run);

}  // namespace ddprun::train
