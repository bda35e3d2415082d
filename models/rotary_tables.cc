#include "models/rotary_tables.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/weights/weight_store.h"

namespace asyra {

void AddRotaryTables(double base, Program* program) {
  auto store = program->weights == nullptr
                   ? std::make_shared<WeightStore>()
                   : std::make_shared<WeightStore>(*program->weights);
  for (const Op& op : program->ops) {
    if (op.def->name != "rotary") continue;
    for (int operand : {1, 2}) {
      ValueId value = op.operands[operand];
      const std::string& name = program->value_name(value);
      bool weight =
          std::any_of(program->inputs.begin(), program->inputs.end(),
                      [&](const Input& input) {
                        return input.value == value && IsWeight(input);
                      });
      const Type& type = program->type(value);
      if (!weight || store->Find(name) != nullptr || type.rank() != 2) continue;
      std::vector<double> numbers;
      for (int64_t position = 0; position < type.size(0); ++position) {
        for (int64_t i = 0; i < type.size(1); ++i) {
          double angle = static_cast<double>(position) *
                         std::pow(base, -static_cast<double>(i) /
                                            static_cast<double>(type.size(1)));
          numbers.push_back(operand == 1 ? std::cos(angle) : std::sin(angle));
        }
      }
      store->Set(name, Tensor::FromDoubles(type.dtype, type.shape(), numbers));
    }
  }
  if (store->size() > 0) program->weights = std::move(store);
}

}  // namespace asyra
