#include "trainer/tour/svg.h"

#include <charconv>
#include <cmath>
#include <cstdint>

namespace ddprun::train {
namespace {

constexpr std::string_view kBackground = "#ffffff";
constexpr double kWidthOfChar = 0.65, kWidthOfBoldChar = 0.72;  // of the size; DejaVu Sans: digits have 0.64 and 0.7

std::string number(double value) {
  const double rounded = std::round(value * 100) / 100 + 0.0;  // no -0
  char digits[400];                                            // of any double
  return {digits, std::to_chars(digits, digits + sizeof digits, rounded, std::chars_format::fixed).ptr};
}

std::string attribute(std::string_view name, const std::string& value) {
  return " " + std::string(name) + "=\"" + value + "\"";
}
std::string attribute(std::string_view name, double value) { return attribute(name, number(value)); }

std::string box_attributes(const Box& box) {
  return attribute("x", box.x) + attribute("y", box.y) + attribute("width", box.width) +
         attribute("height", box.height);
}

int channel(std::string_view colour, std::size_t at) {
  int value = 0;
  std::from_chars(colour.data() + at, colour.data() + at + 2, value, 16);
  return value;
}

// WCAG 2.1, relative luminance.
double luminance(std::string_view colour) {
  const auto linear = [&](std::size_t at) {
    const double c = channel(colour, at) / 255.0;
    return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(1) + 0.7152 * linear(3) + 0.0722 * linear(5);
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c < ' ' || c == '\x7f' ? '?' : c;  // control and non-ASCII bytes
  }
  return result;
}

double text_width(std::string_view text, double size, bool bold) {
  return static_cast<double>(text.size()) * size * (bold ? kWidthOfBoldChar : kWidthOfChar);
}

std::string_view text_colour_on(std::string_view background) {
  constexpr double kEqualContrast = 0.179;  // black and white contrast equally
  return luminance(background) > kEqualContrast ? "#1a1a1a" : "#ffffff";
}

Svg::Svg(double width, double height, std::string_view title) {
  text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) + attribute("height", height) +
          attribute("viewBox", "0 0 " + number(width) + " " + number(height)) +
          attribute("font-family", "'DejaVu Sans', Verdana, Arial, sans-serif") + attribute("role", "img") +
          ">\n<title>" + xml_escaped(title) + "</title>\n";
  rect({0, 0, width, height}, kBackground);
}

void Svg::rect(const Box& box, std::string_view fill, std::string_view frame, double frame_width) {
  const double in = frame.empty() ? 0 : frame_width / 2;
  text_ += "<rect" + box_attributes({box.x + in, box.y + in, box.width - 2 * in, box.height - 2 * in}) +
           attribute("fill", std::string(fill));
  if (!frame.empty()) text_ += attribute("stroke", std::string(frame)) + attribute("stroke-width", frame_width);
  text_ += "/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view colour, double width, bool dashed) {
  text_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
           attribute("stroke", std::string(colour)) + attribute("stroke-width", width) +
           (dashed ? attribute("stroke-dasharray", "5 4") : "") + "/>\n";
}

void Svg::text(double x, double y, std::string_view text, const TextStyle& style) {
  text_ += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", style.size) +
           attribute("fill", std::string(style.colour));
  if (style.anchor != TextStyle::Anchor::start)
    text_ += attribute("text-anchor", style.anchor == TextStyle::Anchor::middle ? "middle" : "end");
  if (style.bold) text_ += attribute("font-weight", "bold");
  text_ += ">" + xml_escaped(text) + "</text>\n";
}

std::string Svg::str() const { return text_ + "</svg>\n"; }

}  // namespace ddprun::train
