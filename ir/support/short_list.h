// Lists of names in messages.
#pragma once

#include <string>
#include <vector>

namespace asyra {

// "a, b, c, ...": the first few of them; "none" without any.
std::string ShortList(const std::vector<std::string>& names);

}  // namespace asyra
