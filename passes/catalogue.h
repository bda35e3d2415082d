// The passes as a Markdown table, from their records.
#pragma once

#include <string>

namespace asyra {

std::string PassCatalogue();

}  // namespace asyra
