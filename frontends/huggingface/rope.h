// Rotary embeddings as config.json describes them: `rope_parameters`, or
// `rope_theta` with `rope_scaling` in older files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/huggingface/config_fields.h"
#include "ir/tensor.h"
#include "models/decoder.h"

namespace asyra {

struct RopeSizes {
  int64_t head_size = 0;
  int64_t seq = 0;           // of the program: some forms depend on it
  double theta = 10000;      // where the file has none
  double partial = 1;        // share of a head that is rotated, likewise
  int64_t positions = 2048;  // the most that the model is made for, likewise
  // Fields that are not of this type of layers are those of other types.
  bool apart = false;
  bool yarn_is_long = false;  // phi-3's files of 2024 call longrope so
};

// The frequencies of layers of a type ("full_attention"), whose parameters may
// be apart in the file. Types of rope: default, linear, dynamic, yarn,
// longrope, llama3. Errors go to `fields`: an unknown type, fields that lack.
RotaryForm RopeOf(ConfigFields& fields, std::string_view layer_type,
                  const RopeSizes& sizes);

// Tables of `seq` positions: [seq, R/2].
Tensor RopeTable(const RotaryForm& form, DType dtype, int64_t seq, bool cosine);

}  // namespace asyra
