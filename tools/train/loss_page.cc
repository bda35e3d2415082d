#include "tools/train/loss_page.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "simulator/report/page.h"

namespace asyra {
namespace {

constexpr double kWidth = 900, kHeight = 260, kLeft = 70, kTop = 12,
                 kBottom = 34;
// Points of a curve; more are thinned.
constexpr size_t kMostPoints = 4000;

struct Point {
  int64_t step = 0;
  double value = 0;
};
using Points = std::vector<Point>;

// The finite ones, or of each of some intervals the lowest and the highest.
Points Thinned(const Points& all) {
  Points finite;
  for (const Point& point : all) {
    if (std::isfinite(point.value)) finite.push_back(point);
  }
  if (finite.size() <= kMostPoints) return finite;
  Points thin;
  size_t buckets = kMostPoints / 2;
  for (size_t b = 0; b < buckets; ++b) {
    auto begin = finite.begin() + b * finite.size() / buckets;
    auto end = finite.begin() + (b + 1) * finite.size() / buckets;
    auto less = [](const Point& a, const Point& b) {
      return a.value < b.value;
    };
    auto [low, high] = std::minmax_element(begin, end, less);
    thin.push_back(*std::min(low, high));
    if (low != high) thin.push_back(*std::max(low, high));
  }
  return thin;
}

// About five multiples of 1, 2 or 5 times a power of ten from `low` to `high`.
std::vector<double> Ticks(double low, double high) {
  double least = std::max(high - low, 1e-12) / 6;
  double power = std::pow(10, std::floor(std::log10(least)));
  double by = 10 * power;
  for (double factor : {5, 2, 1}) {
    if (factor * power >= least) by = factor * power;
  }
  std::vector<double> ticks;
  double last = std::floor(high / by + 1e-9);
  for (double i = std::ceil(low / by - 1e-9); i <= last; ++i) {
    ticks.push_back(i * by);
  }
  return ticks;
}

// Curves over the same steps.
class Chart {
 public:
  Chart(int64_t first, int64_t last) : first_(first), last_(last) {}

  // `kind` is the CSS class, "" of the first.
  void Add(std::string_view kind, const Points& points) {
    Points shown = Thinned(points);
    for (const Point& point : shown) {
      low_ = std::min(low_, point.value);
      high_ = std::max(high_, point.value);
    }
    curves_.emplace_back(kind, std::move(shown));
  }

  // With round numbers at both axes; empty without a point.
  std::string Draw(const std::string& what) {
    if (!(high_ >= low_)) return "";
    if (high_ == low_) high_ = low_ + 1;
    std::string text =
        fmt::format("<h2>{}</h2>\n<svg viewBox=\"0 0 {} {}\" role=\"img\">\n",
                    what, kWidth, kHeight);
    for (double value : Ticks(low_, high_)) {
      text += fmt::format(
          "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
          "y2=\"{:.1f}\"/><text class=\"y\" x=\"{:.1f}\" y=\"{:.1f}\">{:.10g}"
          "</text>\n",
          kLeft, kWidth - 20, Y(value), Y(value), kLeft - 8, Y(value) + 4,
          value);
    }
    for (double step :
         Ticks(static_cast<double>(first_), static_cast<double>(last_))) {
      if (step != std::floor(step)) continue;
      text += fmt::format(
          "<text class=\"x\" x=\"{:.1f}\" y=\"{:.1f}\">{:.0f}</text>\n",
          X(static_cast<int64_t>(step)), kHeight - 12, step);
    }
    for (const auto& [kind, points] : curves_) text += Line(kind, points);
    return text + "</svg>\n";
  }

 private:
  double X(int64_t step) const {
    double length = static_cast<double>(std::max<int64_t>(1, last_ - first_));
    return kLeft +
           (kWidth - kLeft - 20) * static_cast<double>(step - first_) / length;
  }
  double Y(double value) const {
    return kTop + (kHeight - kTop - kBottom) * (high_ - value) / (high_ - low_);
  }

  std::string Line(std::string_view kind, const Points& points) const {
    if (points.empty()) return "";
    std::string text;
    for (const Point& point : points) {
      text += fmt::format("{:.1f},{:.1f} ", X(point.step), Y(point.value));
    }
    std::string style = kind.empty() ? "" : fmt::format(" class=\"{}\"", kind);
    text = fmt::format("<polyline{} points=\"{}\"/>\n", style, text);
    // A single point has no line.
    if (points.size() > 1 && kind.empty()) return text;
    for (const Point& point : points) {
      text += fmt::format("<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
                          style, X(point.step), Y(point.value));
    }
    return text;
  }

  const int64_t first_, last_;
  double low_ = HUGE_VAL, high_ = -HUGE_VAL;
  std::vector<std::pair<std::string_view, Points>> curves_;
};

// Colours have those of a page with timelines, where there are any.
constexpr std::string_view kStyle =
    ".run { --curve: #2563a8; --evaluation: #c8372d; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  .run { --curve: #6ea8e5; --evaluation: #e5665c; }\n}\n"
    ".run { max-width: 1440px; margin: 0 auto; padding: 24px 28px 0; }\n"
    ".run svg { width: 100%; max-width: 980px; display: block; }\n"
    ".run .grid { stroke: var(--grid); }\n"
    ".run text { font-size: 12px; fill: var(--soft); }\n"
    ".run .y { text-anchor: end; } .run .x { text-anchor: middle; }\n"
    ".run polyline { fill: none; stroke: var(--curve); stroke-width: 1.5; }\n"
    ".run circle { fill: var(--curve); }\n"
    ".run polyline.evaluation { stroke: var(--evaluation); }\n"
    ".run circle.evaluation { fill: var(--evaluation); }\n";

std::string Curves(const LossPageData& data) {
  Points loss, norm, speed, evaluated;
  for (const TrainMetrics& one : data.metrics) {
    loss.push_back({one.step, one.loss});
    norm.push_back({one.step, one.norm});
    speed.push_back({one.step, one.tokens_per_s});
  }
  for (const auto& [step, value] : data.evaluations) {
    evaluated.push_back({step, value});
  }
  int64_t first = loss.empty() ? 1 : loss.front().step;
  int64_t last = loss.empty() ? 1 : loss.back().step;
  Chart losses(first, last), norms(first, last), speeds(first, last);
  losses.Add("", loss);
  losses.Add("evaluation", evaluated);
  norms.Add("", norm);
  speeds.Add("", speed);
  return losses.Draw(evaluated.empty()
                         ? "loss by step"
                         : "loss by step, and of evaluations (red)") +
         norms.Draw("norm of the gradients by step") +
         speeds.Draw("tokens a second by step");
}

}  // namespace

std::string LossPage(const LossPageData& data) {
  std::string run = fmt::format(
      "<style>\n{}</style>\n<section class=\"run\">\n<h1>{}</h1>\n{}"
      "</section>\n",
      kStyle, EscapedHtml(data.title), Curves(data));
  if (data.timelines.empty()) {
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n<title>{}</title>\n<style>\n:root {{ "
        "color-scheme: light dark; --grid: #ddd; --soft: #555; }}\n"
        "@media (prefers-color-scheme: dark) {{\n"
        "  :root {{ --grid: #2a3139; --soft: #97a2ad; }}\n"
        "  body {{ color: #dde3e9; background: #14181d; }}\n}}\n"
        "body {{ margin: 0; font: 14px system-ui, sans-serif; }}\n"
        "h1 {{ font-size: 20px; margin: 0; }} h2 {{ font-size: 15px; margin: "
        "30px 0 8px; }}\n</style>\n</head>\n<body>\n{}</body>\n</html>\n",
        EscapedHtml(data.title), run);
  }
  return ProfilePage(
      data.timelines,
      {.title = data.title,
       .above = run,
       .heading = data.timelines.size() > 1
                      ? "A step, as it was predicted and as it ran"
                      : "A step as it ran",
       .names = {"predicted", "measured"}});
}

}  // namespace asyra
