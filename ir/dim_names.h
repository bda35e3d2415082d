// What a model calls the dimensions of its inputs: "batch", "seq". A hint that
// importers find and passes may go by (passes/dim_words.h). It is kept beside
// the program: it means nothing to it, and the text form does not have it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace asyra {

// By name of the input; of each dimension, "" where it has none.
using DimNames = std::map<std::string, std::vector<std::string>, std::less<>>;

// "" where the model gives none.
std::string_view DimName(const DimNames& names, std::string_view input,
                         int dim);

// `dim 1`, or `dim 1 "seq"`.
std::string DimText(const DimNames& names, std::string_view input, int dim);

}  // namespace asyra
