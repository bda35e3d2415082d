#include "frontends/onnx/stripped_export.h"

#include "frontends/onnx/weight_operands.h"

namespace asyra::onnx_import {
namespace {

// A stripped export may keep some weights, for example tables of positions:
// less than this fraction of the missing elements.
constexpr double kKeptPart = 10;
// Matrices that a stripped export has at least for each of the other inputs, if
// all inputs are floats of static shape.
constexpr size_t kMatricesPerInput = 3;

bool IsSurelyData(const GraphInput& input) {
  return input.symbolic || !IsFloat(input.type.dtype);
}

bool MayBeWeight(const GraphInput& input) {
  return !IsSurelyData(input) && input.type.rank() >= 1;
}

}  // namespace

absl::flat_hash_set<std::string_view> StrippedWeights(
    const onnx::GraphProto& graph, const Body& body, Bodies& bodies,
    absl::Span<const GraphInput> inputs) {
  absl::flat_hash_set<std::string_view> weights;
  double stored = 0, lacking = 0;  // elements
  size_t matrices = 0;
  for (const WeightSource& source :
       FindWeightOperands(graph, body, bodies, inputs)) {
    if (source.input == nullptr) {
      stored += source.is_operand ? static_cast<double>(source.elements) : 0;
    } else if (source.is_operand && MayBeWeight(*source.input)) {
      weights.insert(source.input->name);
      matrices += source.is_evident ? 1 : 0;
      lacking += source.is_evident ? static_cast<double>(source.elements) : 0;
    }
  }
  size_t others = 0;
  bool has_data = false;
  for (const GraphInput& input : inputs) {
    has_data |= IsSurelyData(input);
    if (input.type.rank() == 1 && input.type.num_elements() > 1 &&
        MayBeWeight(input) && body.reads.contains(input.name)) {
      weights.insert(input.name);
    }
    others += weights.contains(input.name) ? 0 : 1;
  }
  has_data |= others > 0 && matrices >= kMatricesPerInput * others;
  bool stripped = matrices > 0 && has_data && stored <= lacking / kKeptPart;
  if (!stripped) weights.clear();
  return weights;
}

}  // namespace asyra::onnx_import
