// The model's names for the dimensions of its inputs: "batch", "seq". A hint
// from importers that passes may use (passes/analysis/dim_words.h). It is kept
// beside the program and is not part of the text form.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace asyra {

// By name of the input; of each dimension, "" where it has none.
using DimNames = std::map<std::string, std::vector<std::string>, std::less<>>;

// "" if the model has no name for it.
std::string_view DimName(const DimNames& names, std::string_view input,
                         int dim);

// `dim 1`, or `dim 1 "seq"`.
std::string DimText(const DimNames& names, std::string_view input, int dim);

}  // namespace asyra
