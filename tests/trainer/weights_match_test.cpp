#include "trainer/ddp/snapshot/weights_match.h"

#include "rendezvous/base/error.h"
#include "tests/support/test.h"

using Names = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

namespace {

// A tensor each, of two numbers.
std::vector<TensorShape> tensors(const Names& names) {
  std::vector<TensorShape> result;
  for (const auto& name : names) result.push_back({name, {2}, result.size()});
  return result;
}

std::string error_text(const std::vector<TensorShape>& file, const std::vector<TensorShape>& model,
                       const LoadOptions& options = {}) {
  return test::error_text<Error>([&] { match_weights(file, model, options, "the file"); });
}

}  // namespace

TEST_CASE("weights go by their names, in whatever order the file has them", "[weights]") {
  const auto match = match_weights(tensors({"b", "c", "a"}), tensors({"a", "b", "c"}), {}, "the file");
  CHECK(match.pairs == Pairs{{2, 0}, {0, 1}, {1, 2}});
  CHECK(match.report.loaded == Names{"a", "b", "c"});
  CHECK(match.report.text() == "loaded 3 of 3 tensors");
}

TEST_CASE("weights that do not all fit are refused by one sentence that names the first of each kind", "[weights]") {
  auto file = tensors({"a", "x", "y", "fc"});
  file[3].shape = {10, 512};
  auto model = tensors({"a", "b1", "b2", "b3", "b4", "b5", "fc"});
  model[6].shape = {};
  CHECK(
      error_text(file, model) ==
      "cannot load the file: it lacks b1, b2, b3 and 2 more; the model does not have its x, y; other shapes: fc (10 x "
      "512 in the file, one number in the model). Load it into the model it was saved from, or set "
      "LoadOptions::partial to "
      "take what fits.");
}

TEST_CASE("what fits is taken, and the rest told, where that is asked for", "[weights]") {
  auto file = tensors({"a", "x", "fc"});
  file[2].shape = {10, 512};
  auto model = tensors({"a", "b", "fc"});
  model[2].shape = {3, 512};
  const auto match = match_weights(file, model, {.partial = true}, "the file");
  CHECK(match.pairs == Pairs{{0, 0}});
  CHECK(match.report.loaded == Names{"a"});
  CHECK(match.report.text() ==
        "loaded 1 of 3 tensors; missing: b; not in the model: x; of other shapes: fc (10 x 512 in the file, 3 x 512 in "
        "the "
        "model)");
}

TEST_CASE("a report names eight tensors of a kind and counts the others", "[weights]") {
  Names names{"fits"};
  for (int i = 0; i < 10; ++i) names.push_back("t" + std::to_string(i));
  const auto match = match_weights(tensors({"fits"}), tensors(names), {.partial = true}, "the file");
  CHECK(match.report.text() == "loaded 1 of 11 tensors; missing: t0, t1, t2, t3, t4, t5, t6, t7 and 2 more");
}

TEST_CASE("a file none of whose tensors fits is refused even where parts are enough", "[weights]") {
  CHECK(error_text(tensors({"net.b"}), tensors({"a"}), {.partial = true}) ==
        "cannot load the file: none of its tensors fits the model: it lacks a; the model does not have its net.b. "
        "LoadOptions::rename makes names fit.");
  CHECK_THAT(error_text(tensors({"b"}), tensors({"a"}), {.partial = true, .remedy = "Pass another."}),
             EndsWith(". Pass another."));
}

TEST_CASE("the first prefix that fits is replaced, once", "[weights]") {
  const LoadOptions options{.rename = {{"backbone.", ""}, {"head.", "fc."}, {"back", "never"}}};
  const auto match = match_weights(tensors({"backbone.head.w", "head.w", "other"}),
                                   tensors({"head.w", "fc.w", "other"}), options, "the file");
  CHECK(match.pairs == Pairs{{0, 0}, {1, 1}, {2, 2}});
  CHECK(error_text(tensors({"a.w", "w"}), tensors({"w"}), {.partial = true, .rename = {{"a.", ""}}}) ==
        "cannot load the file: two of its tensors would be w, one of them w. Change LoadOptions::rename.");
}

TEST_CASE("what is skipped is neither loaded nor missed", "[weights]") {
  auto file = tensors({"a", "fc.w", "fc.old"});
  file[1].shape = {1000};
  const auto match = match_weights(file, tensors({"a", "fc.w", "fc.b"}), {.skip = {"fc."}}, "the file");
  CHECK(match.pairs == Pairs{{0, 0}});
  CHECK(match.report.skipped == Names{"fc.w", "fc.b"});
  CHECK(match.report.text() == "loaded 1 of 3 tensors (2 skipped)");
}

TEST_CASE("prefixes that all names share are left out if more names fit without them, and are told", "[weights]") {
  const auto match = match_weights(tensors({"_orig_mod.module.a", "_orig_mod.module.b"}), tensors({"a", "b"}), {}, "");
  CHECK(match.report.text() == "loaded 2 of 2 tensors; all 2 names begin with '_orig_mod.module.', which is left out");
  const auto left_out = [](const Names& file, const Names& model, const LoadOptions& options = {.partial = true}) {
    return match_weights(tensors(file), tensors(model), options, "the file").report.prefix;
  };
  CHECK(left_out({"module.a", "module.b"}, {"a", "b"}) == "module.");
  CHECK(left_out({"model.net.a.w", "model.net.b.w"}, {"a.w", "b.w", "c.w"}) == "model.net.");
  CHECK(left_out({"module.backbone.a"}, {"a"}, {.rename = {{"backbone.", ""}}}) == "module.");
  // A model's own names may begin so.
  CHECK(left_out({"model.a", "model.b"}, {"model.a", "model.b"}) == "");
  CHECK(left_out({"model.a", "model.b"}, {"model.a", "a", "model.b"}) == "");
  CHECK(left_out({"x.a"}, {"a", "x.a"}) == "");
  CHECK(left_out({"module.model.a"}, {"model.a"}) == "module.");
  CHECK(left_out({"module.module.a"}, {"module.a"}) == "module.");
  CHECK_FALSE(error_text(tensors({"module.a", "b"}), tensors({"a", "b"})).empty());
}

TEST_CASE("a file from before batches were counted lacks nothing", "[weights]") {
  const Names model{"bn.running_mean", "bn.num_batches_tracked", "fc.running_mean", "fc.num_batches_tracked"};
  CHECK(error_text(tensors({"bn.running_mean", "fc.running_mean"}), tensors(model)) == "");
  CHECK_THAT(error_text(tensors({"bn.running_mean", "bn.num_batches_tracked", "fc.running_mean"}), tensors(model)),
             Contains("it lacks fc.num_batches_tracked"));
}

TEST_CASE("a tensor of two names is loaded by one of them", "[weights]") {
  auto model = tensors({"embedding", "a", "head"});
  model[2].identity = model[0].identity;
  const auto match = match_weights(tensors({"a", "head"}), model, {}, "the file");
  CHECK(match.pairs == Pairs{{0, 1}, {1, 2}});
  CHECK(match.report.loaded == Names{"a", "head", "embedding"});
}

TEST_CASE("a name out of a file cannot write into a terminal, nor fill a log", "[weights]") {
  CHECK(printable("a\x1b[2J\n") == "a?[2J?");
  CHECK(printable(std::string(1000, 'n')) == std::string(120, 'n') + "...");
}
