// Names and percentages in reports.
#pragma once

#include <string>
#include <string_view>

namespace asyra {

// "layer12.q_proj.t0" -> "layer*.q_proj.t*": the same op of all layers. Types
// keep their digits: "layer*.q_proj.weight.bf16".
std::string StarName(std::string_view name);
// At most `width` characters: of a longer name "..." and its end, which tells
// more than its beginning.
std::string FitName(const std::string& name, size_t width);
// 100 part / whole; 0 of nothing.
double Percent(double part, double whole);

}  // namespace asyra
