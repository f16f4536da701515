// A picture as SVG 1.1: rectangles, lines and texts on a light background. Readable in a browser and by rsvg-convert.
//
// Lengths are in units of the viewBox (pixels at its natural size), y grows downwards, colours are "#rrggbb". Numbers
// are written with two decimals at most, so that equal pictures are equal texts. Pure.
#pragma once
#include <string>
#include <string_view>

namespace ddprun::train {

struct Box {
  double x, y, width, height;
};

struct TextStyle {
  double size = 13;
  enum class Anchor { start, middle, end } anchor = Anchor::start;
  std::string_view colour = "#1a1a1a";
  bool bold = false;
};

class Svg {
 public:
  // `title` is for screen readers.
  Svg(double width, double height, std::string_view title);

  // `frame`: a line of that width inside the edge; "": none.
  void rect(const Box& box, std::string_view fill, std::string_view frame = "", double frame_width = 1);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1, bool dashed = false);
  // `y` is the baseline. Takes any bytes: those that XML cannot hold become '?'.
  void text(double x, double y, std::string_view text, const TextStyle& style = {});

  std::string str() const;

 private:
  std::string text_;
};

// An upper estimate for a sans-serif font of that size: enough for DejaVu Sans, which is wide.
double text_width(std::string_view text, double size, bool bold = false);

// A readable colour for text on a background: nearly black, or white.
std::string_view text_colour_on(std::string_view background);

std::string xml_escaped(std::string_view text);

}  // namespace ddprun::train
