// Built-in models: builders of the raised form of well-known architectures at
// any size, for what-if questions without a file. Their weights have no data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "models/decoder.h"

namespace asyra {

// `sizes` overrides sizes by name: batch, seq, layers, hidden, ...
// Errors: an unknown model or size (the known ones are listed), sizes that do
// not fit.
absl::StatusOr<DecoderConfig> BuiltinDecoder(
    std::string_view name, const std::map<std::string, int64_t>& sizes);
// The program of it. Errors: the same, behind the name; those of BuildDecoder.
absl::StatusOr<Program> BuiltinModel(
    std::string_view name, const std::map<std::string, int64_t>& sizes);

// The base of the frequencies of a model's rotary embedding, whose tables
// `rotary.cos` and `rotary.sin` are weights; 10000 where the name is not known.
double RotaryBase(std::string_view name);

// "llama3-8b, llama3-70b, ...".
std::string BuiltinModelNames();

}  // namespace asyra
