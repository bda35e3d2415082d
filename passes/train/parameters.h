// The parameters of a model: the weights that training changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace asyra {

// The use of a parameter by the model, which says what it begins with.
enum class ParameterUse {
  kMatrix,  // of a matmul, a convolution, or a table of rows
  kScale,   // multiplies, as a norm's does
  kBias,    // is added, or anything else
};

struct Parameter {
  ValueId value = kNoValue;
  ParameterUse use = ParameterUse::kMatrix;
};

// A float weight that is no parameter, and why.
struct UntrainedWeight {
  ValueId value = kNoValue;
  std::string reason;  // "a triangle of one number"
};

struct WeightRoles {
  std::vector<Parameter> parameters;
  std::vector<UntrainedWeight> untrained;
};

// The reason of those that rotary ops alone read.
inline constexpr std::string_view kRotaryTables = "tables of rotary embedding";
// The reason of those that no gradient can reach.
inline constexpr std::string_view kNoGradient =
    "nothing with a slope leads from them to a float output";

// Finds all float weights of the program, in the order of the inputs. A
// parameter is one that a gradient can reach: ops that have a slope lead from
// it to a float output, whatever reads it first. These are constants of the
// model instead:
// - what the file says is none (WeightOrigin::constant) or does not have
//   (WeightOrigin::made), and what is called as running statistics are
//   (running_mean, moving_variance);
// - one scalar everywhere under a name that an exporter makes up
//   (ir/support/exporter_names.h): a mask or a state that it has computed;
// - tables of rotary embedding, and sines of positions (constant_data.h);
// - frequencies: what positions are multiplied with on the way to sines alone,
//   or a geometric series there or beside positions (slopes of ALiBi);
// - what its data, as its readers get it, shows to be a mask or a sum over
//   positions: a triangle of one scalar that a matmul contracts or that is
//   added, zeros and ones that multiply, zeros and scalars below -1000 that are
//   added, or planes over two dimensions that are. Their last two dimensions
//   have several elements each: vectors may begin so.
WeightRoles FindParameters(const Program& program);

}  // namespace asyra
