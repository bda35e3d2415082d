#include "simulator/report/page.h"

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "simulator/report/page_assets.h"
#include "simulator/report/profile_diff.h"
#include "simulator/report/profile_json.h"

namespace asyra {
namespace {

// JSON inside a <script> element: no text in it may end the element.
std::string Embedded(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string Text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string Page(std::string_view title, std::string_view above,
                 std::string_view json,
                 absl::Span<const std::string_view> scripts) {
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}"
      "<main id=\"page\"></main>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n",
      EscapedHtml(title), PageAsset("page.css"), above, Embedded(json));
  for (std::string_view script : scripts) {
    text += fmt::format("<script>\n{}</script>\n", PageAsset(script));
  }
  return text + "</body>\n</html>\n";
}

}  // namespace

std::string EscapedHtml(std::string_view text) {
  std::string html;
  for (char c : text) {
    if (c == '&') {
      html += "&amp;";
    } else if (c == '<') {
      html += "&lt;";
    } else if (c == '>') {
      html += "&gt;";
    } else {
      html += c;
    }
  }
  return html;
}

std::string ProfilePage(absl::Span<const Profile> profiles,
                        const ProfilePageOptions& options) {
  std::string json = fmt::format(
      "{{\"heading\": {}, \"names\": [{}, {}], \"profiles\": [",
      Text(options.heading), Text(options.names[0]), Text(options.names[1]));
  for (size_t i = 0; i < profiles.size(); ++i) {
    json += (i > 0 ? ", " : "") + ProfileJson(profiles[i]);
  }
  json += "]";
  if (profiles.size() == 2) {
    json += ", \"differences\": " + DifferencesJson(profiles[0], profiles[1]);
  }
  std::string title = !options.title.empty() ? options.title
                      : profiles.size() == 1 ? "asyra: step"
                                             : "asyra: before and after";
  return Page(title, options.above, json + "}",
              {"common.js", "timeline.js", "memory.js", "profile.js"});
}

std::string SweepPage(std::string_view json) {
  return Page("asyra: sweep", "", json, {"common.js", "sweep.js"});
}

}  // namespace asyra
