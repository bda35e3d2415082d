#include "tools/loss_page.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace asyra {
namespace {

constexpr double kWidth = 900, kHeight = 320, kLeft = 70, kTop = 20,
                 kBottom = 40;

std::string Escaped(const std::string& text) {
  std::string html;
  for (char c : text) {
    html += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : "";
    if (c != '&' && c != '<' && c != '>') html += c;
  }
  return html;
}

// One curve with its axes, numbers at five heights and five steps, of which
// `first` is the first.
std::string Curve(const std::string& what, const std::vector<double>& values,
                  int64_t first) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (!(high >= low)) return "";
  if (high == low) high = low + 1;
  double inner = kHeight - kTop - kBottom, across = kWidth - kLeft - 20;
  double last = std::max<double>(1, static_cast<double>(values.size()) - 1);
  auto x = [&](double step) { return kLeft + across * step / last; };
  auto y = [&](double value) {
    return kTop + inner * (high - value) / (high - low);
  };
  std::string text =
      fmt::format("<h2>{}</h2>\n<svg viewBox=\"0 0 {} {}\" role=\"img\">\n",
                  what, kWidth, kHeight);
  for (int i = 0; i <= 4; ++i) {
    double value = low + (high - low) * i / 4, step = last * i / 4;
    text += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
        "y2=\"{:.1f}\"/><text class=\"y\" x=\"{:.1f}\" y=\"{:.1f}\">{:.4g}"
        "</text><text class=\"x\" x=\"{:.1f}\" y=\"{:.1f}\">{:.0f}</text>\n",
        kLeft, kLeft + across, y(value), y(value), kLeft - 8, y(value) + 4,
        value, x(step), kHeight - 14, step + static_cast<double>(first));
  }
  std::string points;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    points +=
        fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(i)), y(values[i]));
  }
  return text + fmt::format("<polyline points=\"{}\"/>\n</svg>\n", points);
}

}  // namespace

std::string LossPage(const std::string& title,
                     const std::vector<TrainMetrics>& metrics) {
  std::vector<double> loss, norm, speed;
  int64_t first = metrics.empty() ? 1 : metrics[0].step;
  for (const TrainMetrics& one : metrics) {
    loss.push_back(one.loss);
    norm.push_back(one.norm);
    speed.push_back(one.tokens_per_s);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
      "<title>{0}</title>\n<style>\n"
      "body {{ font: 15px system-ui, sans-serif; max-width: 920px; margin: "
      "2em auto; color: #222; }}\n"
      "h1 {{ font-size: 1.3em; }} h2 {{ font-size: 1em; margin: 1.5em 0 0; }}\n"
      "svg {{ width: 100%; }} .grid {{ stroke: #ddd; }}\n"
      "text {{ font-size: 12px; fill: #555; }} .y {{ text-anchor: end; }}\n"
      ".x {{ text-anchor: middle; }}\n"
      "polyline {{ fill: none; stroke: #2563a8; stroke-width: 2; }}\n"
      "</style>\n<h1>{0}</h1>\n{1}{2}{3}</html>\n",
      Escaped(title), Curve("loss by step", loss, first),
      Curve("norm of the gradients by step", norm, first),
      Curve("tokens a second by step", speed, first));
}

}  // namespace asyra
