// The tours' pictures: golden texts in testdata and docs (DDPRUN_UPDATE=1 rewrites them: look at them then), and what a
// renderer makes of them.
#include "tests/support/test.h"
#include "tests/trainer/golden_text.h"
#include "tests/trainer/tour_deals.h"
#include "trainer/tour/svg.h"
#include "trainer/tour/timeline.h"

namespace {

std::string deals_picture(int world) { return picture_of(test::deals_of(world)); }

// As `sync` draws it: each rank has more to do than the one before.
std::string timeline_picture(int ranks) {
  std::vector<Lane> lanes;
  for (int rank = 0; rank < ranks; ++rank) {
    const double more = ranks == 1 ? 0 : 3.0 * rank / (ranks - 1);
    Lane lane;
    double at = 0;
    const auto add = [&](Activity what, double end) {
      lane.push_back({what, at, end});
      at = end;
    };
    add(Activity::work, 40 * (1 + more));
    add(Activity::barrier, 161 + 0.1 * rank);
    for (const double begin : {161.0, 291.0}) {
      add(Activity::forward, begin + 10 * (1 + more));
      add(Activity::backward, begin + 30 * (1 + more));
      add(Activity::gradients, begin + 130);
    }
    lanes.push_back(lane);
  }
  return picture_of(lanes, {{"barrier", 1}, {"gradients, step 1", 4}, {"gradients, step 2", 7}});
}

struct Size {
  double width = 0, height = 0;
};

Size size_of(const std::string& svg) {
  std::smatch match;
  REQUIRE(std::regex_search(svg, match, std::regex("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
  return {std::stod(match[1]), std::stod(match[2])};
}

struct Text {
  std::string words;
  Box box;
};

// Boxes that hold the texts for certain.
std::vector<Text> texts_of(const std::string& svg) {
  static const std::regex pattern(
      "<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" font-size=\"([0-9.]+)\"[^>]*?( text-anchor=\"(middle|end)\")?"
      "( font-weight=\"bold\")?>([^<]*)</text>");
  std::vector<Text> texts;
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match) {
    const auto number = [&](std::size_t group) { return std::stod((*match)[group]); };
    const std::string words = (*match)[7], anchor = (*match)[5];
    const double width = text_width(words, number(3), (*match)[6].matched);
    const double left = number(1) - (anchor == "end" ? width : anchor == "middle" ? width / 2 : 0);
    texts.push_back({words, {left, number(2) - 0.8 * number(3), width, number(3)}});
  }
  return texts;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

// Of vertical lines.
std::vector<Box> dashed_lines_of(const std::string& svg) {
  static const std::regex pattern(
      "<line x1=\"([0-9.]+)\" y1=\"([0-9.]+)\" x2=\"\\1\" y2=\"([0-9.]+)\"[^>]*stroke-dasharray");
  std::vector<Box> lines;
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match) {
    const auto number = [&](std::size_t group) { return std::stod((*match)[group]); };
    lines.push_back({number(1), number(2), 0, number(3) - number(2)});
  }
  return lines;
}

void check_texts(const std::string& svg) {
  const auto texts = texts_of(svg);
  const auto size = size_of(svg);
  CHECK(texts.size() > 5);
  CHECK(static_cast<int>(texts.size()) == count(svg, "<text "));
  const auto lines = dashed_lines_of(svg);
  CHECK(static_cast<int>(lines.size()) == count(svg, "stroke-dasharray"));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Box& box = texts[i].box;
    INFO(texts[i].words);
    CHECK((box.x >= 0 && box.x + box.width <= size.width && box.y >= 0 && box.y + box.height <= size.height));
    for (std::size_t k = i + 1; k < texts.size(); ++k)
      if (overlap(box, texts[k].box)) FAIL_CHECK(texts[i].words + " covers " + texts[k].words);
    for (const Box& line : lines)
      if (overlap(box, line)) FAIL_CHECK("a line cuts " + texts[i].words);
  }
}

}  // namespace

TEST_CASE("any text can stand in a picture", "[tour]") {
  CHECK(xml_escaped("a < b && \"c\" > d") == "a &lt; b &amp;&amp; &quot;c&quot; &gt; d");
  CHECK(xml_escaped(std::string("x\0\n\xffy", 5)) == "x???y");
  Svg svg(10.126, 20, "<title>");
  svg.line(-0.001, 1.0 / 3, 1e6, 2, "#000000", 1, true);
  CHECK_THAT(svg.str(), Contains("viewBox=\"0 0 10.13 20\"") && Contains("<title>&lt;title&gt;</title>") &&
                            Contains("<line x1=\"0\" y1=\"0.33\" x2=\"1000000\" y2=\"2\"") &&
                            Contains("stroke-dasharray"));
}

TEST_CASE("writing is dark on a bright ground and bright on a dark one", "[tour]") {
  for (const char* bright : {"#ffffff", "#f0e442", "#e69f00", "#c9c9c9", "#009e73"})
    CHECK(text_colour_on(bright) == "#1a1a1a");
  for (const char* dark : {"#000000", "#440154", "#3b528b", "#0072b2"}) CHECK(text_colour_on(dark) == "#ffffff");
}

TEST_CASE("the pictures of the tours are as they were looked at", "[tour]") {
  CHECK(deals_picture(4) == test::golden_text("docs/sampler.svg", deals_picture(4)));
  CHECK(timeline_picture(4) == test::golden_text("tests/trainer/testdata/tour_timeline.svg", timeline_picture(4)));
}

TEST_CASE("no text of a picture covers another one or leaves it, whatever the number of ranks", "[tour]") {
  for (const int ranks : {1, 2, 4, 16, 17, 100}) {
    INFO(ranks << " ranks");
    check_texts(deals_picture(ranks));
    check_texts(timeline_picture(ranks));
  }
}

TEST_CASE("sync points close to each other have names that can be read", "[tour]") {
  std::vector<Lane> lanes(2);
  std::vector<SyncPoint> sync_points;
  for (std::size_t i = 0; i < 6; ++i) {
    for (Lane& lane : lanes) lane.push_back({Activity::barrier, 100.0 + static_cast<double>(i) / 10, 101});
    sync_points.push_back({"meeting " + std::to_string(i), i});
  }
  check_texts(picture_of(lanes, sync_points));
  lanes[0].push_back({Activity::work, 101, 130});  // a line between them and the next names
  lanes[1].push_back({Activity::work, 101, 200});
  for (Lane& lane : lanes) {
    lane.push_back({Activity::barrier, 112, 113});
    lane.push_back({Activity::barrier, 200, 200});
  }
  sync_points.push_back({"another meeting", 7});
  sync_points.push_back({"the last meeting", 8});
  check_texts(picture_of(lanes, sync_points));
}

TEST_CASE("a renderer draws the pictures in their size", "[tour]") {
  const TempFolder folder;
  const std::string svg = GENERATE(deals_picture(4), timeline_picture(4));
  const auto png = folder / "picture.png";
  REQUIRE(test::run({"rsvg-convert", folder.write("picture.svg", svg), "-o", png}, std::chrono::seconds(30)) ==
          test::exited(0));
  const auto seen = test::run({test::venv_python(), test::source_folder() + "/tests/trainer/picture_peer.py", png},
                              std::chrono::seconds(30));
  REQUIRE(seen == test::exited(0));
  std::istringstream numbers(seen.out);
  double width = 0, height = 0, colours = 0, drawn = 0;
  numbers >> width >> height >> colours >> drawn;
  CHECK(width == std::round(size_of(svg).width));
  CHECK(height == std::round(size_of(svg).height));
  CHECK(colours > 10);
  CHECK(drawn > 0.1);
}
