#include "trainer/loop/writing.h"

#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"
#include "trainer/data/data_file.h"
#include "trainer/data/text.h"
#include "trainer/ddp/snapshot/snapshot_format.h"
#include "trainer/ddp/snapshot/state_dict.h"
#include "trainer/loop/snapshot_extra.h"
#include "trainer/loop/transfer.h"

namespace ddprun::train {
namespace {

constexpr std::int64_t kShownLength = 76;
constexpr std::chrono::seconds kShownLimit{1};  // the other ranks wait for rank 0

std::vector<double> next_scores(Model& model, const std::vector<std::int64_t>& text, std::int64_t context) {
  const auto seen = static_cast<std::ptrdiff_t>(std::min<std::size_t>(text.size(), static_cast<std::size_t>(context)));
  const std::vector<std::int64_t> window(text.end() - seen, text.end());
  const at::Device device = model.parameters().front().device();
  const at::Tensor scores = model.forward(torch::tensor(window, at::kLong).unsqueeze(0).to(device));
  const at::Tensor last = scores[0][-1].to(at::kCPU, at::kDouble).contiguous();
  const auto* const data = last.const_data_ptr<double>();
  return {data, data + last.numel()};
}

// --- The model of a snapshot

std::string read_snapshot_file(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string what = "cannot write with the snapshot " + path;
  std::error_code none;
  if (fs::is_directory(path, none)) throw UsageError(what, "it is a folder", "Name a file in it with --snapshot.");
  std::ifstream file(path, std::ios::binary);
  if (file) return {std::istreambuf_iterator<char>(file), {}};
  const int error = errno;
  if (error != ENOENT) throw Error(what, std::generic_category().message(error));
  std::vector<std::string> others;
  for (const std::string& name : names_in_folder("."))
    if (name.starts_with("snapshot-gpt-") && name.ends_with(".pt")) others.push_back(name);
  throw UsageError(what, "there is no such file",
                   others.empty() ? "Train one, train --model gpt, or name one with --snapshot."
                                  : "Name one with --snapshot: there is " + listed(others, "and") + ".");
}

struct TextModel {
  std::shared_ptr<Model> model;
  Vocabulary vocabulary;
  std::int64_t context;
};

TextModel text_model_of(const Snapshot& snapshot, const std::string& path) {
  const nlohmann::json& extra = snapshot.extra;
  const std::string name = saved_setting(extra, "model.name"), what = "cannot write with the snapshot " + path,
                    remedy = "Name one of the model gpt with --snapshot.";
  if (name.empty()) throw UsageError(what, "it does not say of which model and text it is", remedy);
  if (name != "gpt" || !extra.contains("alphabet") || !extra["alphabet"].is_string())
    throw UsageError(what, "it is of " + visible(name) + " on " + visible(saved_setting(extra, "data.name")), remedy);
  const auto number = [&](const char* key) { return std::strtoll(saved_setting(extra, key).c_str(), nullptr, 10); };
  const Vocabulary vocabulary(decode_utf8(extra["alphabet"].get<std::string>(), path));
  const ModelSpec spec{.name = name,
                       .vocabulary = vocabulary.size(),
                       .context = number("data.context"),
                       .layers = number("model.layers"),
                       .heads = number("model.heads"),
                       .embedding = number("model.embedding")};
  std::shared_ptr<Model> model = make_model(spec);
  load_model_state(*model, snapshot.model_state, "the snapshot " + path);
  return {std::move(model), vocabulary, spec.context};
}

// --- The prompt

bool knows(const Vocabulary& vocabulary, char32_t character) {
  return vocabulary.characters().find(character) != std::u32string::npos;
}

std::int64_t id_of(const Vocabulary& vocabulary, char32_t character) {
  return static_cast<std::int64_t>(vocabulary.characters().find(character));
}

std::string piece_of(const Vocabulary& vocabulary, std::int64_t id) { return vocabulary.text_of({&id, 1}); }

// As each line of a text begins.
std::vector<std::int64_t> line_begin(const Vocabulary& vocabulary) {
  return {knows(vocabulary, U'\n') ? id_of(vocabulary, U'\n') : 0};
}

std::string alphabet(const Vocabulary& vocabulary) {
  std::string all;
  for (std::int64_t id = 0; id < vocabulary.size(); ++id) all += piece_of(vocabulary, id);
  return visible(all);
}

std::u32string characters_of(const std::string& prompt) try {
  return decode_utf8(prompt, "--prompt");
} catch (const Error&) {
  throw UsageError("cannot begin with this prompt", "it is not UTF-8", "Type it in a terminal of UTF-8.");
}

std::vector<std::int64_t> ids_of_prompt(const Vocabulary& vocabulary, const std::string& prompt) {
  if (prompt.empty()) return line_begin(vocabulary);
  std::vector<std::int64_t> ids;
  std::vector<std::string> unknown;
  for (const char32_t character : characters_of(prompt)) {
    const bool known = knows(vocabulary, character);
    ids.push_back(known ? id_of(vocabulary, character) : 0);
    if (known) continue;
    const std::u32string one(1, character);
    const std::string quoted = "'" + visible(piece_of(Vocabulary(one), 0)) + "'";
    if (std::find(unknown.begin(), unknown.end(), quoted) == unknown.end()) unknown.push_back(quoted);
  }
  if (!unknown.empty())
    throw UsageError("cannot begin with this prompt", "the text that the model was trained on has no " +
                                                          listed(unknown) + ", only '" + alphabet(vocabulary) + "'");
  return ids;
}

// As it is written, where somebody watches.
void print_piece(const std::string& text, bool on_terminal) {
  print_text(stdout, text);
  if (on_terminal) std::fflush(stdout);
}

}  // namespace

std::vector<std::int64_t> continue_text(Model& model, std::vector<std::int64_t> text, const Writing& writing,
                                        const std::function<bool(std::int64_t id)>& each) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  const std::size_t begin = text.size();
  SampleRng rng(writing.seed, 0, 0);
  model.eval();
  for (std::int64_t i = 0; i < writing.length; ++i) {
    text.push_back(next_character(next_scores(model, text, writing.context), writing.sampling, rng));
    if (each && !each(text.back())) break;
  }
  if (was_training) train_mode(model);
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.end()};
}

void write_text(const WriteLine& line, bool on_terminal) {
  const std::string bytes = read_snapshot_file(line.snapshot);
  const TextModel writer = text_model_of(decode(bytes, "the snapshot " + line.snapshot), line.snapshot);
  const auto prompt = ids_of_prompt(writer.vocabulary, line.prompt);
  const Writing writing{.context = writer.context,
                        .length = line.length,
                        .sampling = {.temperature = line.temperature, .top_k = line.top_k},
                        .seed = line.seed};
  print_piece(line.prompt, on_terminal);
  continue_text(*writer.model, prompt, writing, [&](std::int64_t id) {
    print_piece(piece_of(writer.vocabulary, id), on_terminal);
    return true;
  });
  print_text(stdout, "\n");
}

void show_text(Run& run) {
  if (run.data.task != Task::predict_next || !run.progress.on_terminal()) return;
  const Vocabulary& vocabulary = run.data.vocabulary;
  const auto began = Clock::now();
  const Writing writing{
      .context = run.data.context, .length = kShownLength, .seed = static_cast<std::uint64_t>(run.at.epochs_run)};
  std::string text;
  try {
    continue_text(*run.model, line_begin(vocabulary), writing, [&](std::int64_t id) {
      text += piece_of(vocabulary, id);
      return Clock::now() - began < kShownLimit;
    });
  } catch (const Error&) {
    return;  // it is for the eye only
  }
  for (const std::string& part : split(text, '\n'))
    if (!part.empty()) run.progress.line("  | " + visible(part));
}

}  // namespace ddprun::train
