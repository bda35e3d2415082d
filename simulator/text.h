// How reports spell quantities.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace asyra {

std::string BytesText(int64_t bytes);  // "4.29 GiB", "12 bytes"
// "12.3 us", "4.57 ms", "1.20 s": three digits or more.
std::string TimeText(double us);
// "layer12.q_proj.t0" -> "layer*.q_proj.t*": the same op of all layers.
std::string NamePattern(std::string_view name);
// At most `width` characters: of a longer name "..." and its end, which tells
// more than its beginning.
std::string FitName(const std::string& name, size_t width);
// 100 part / whole; 0 of nothing.
double Percent(double part, double whole);

}  // namespace asyra
