#include "ir/halves.h"

#include "ir/multi_adamw.h"

namespace asyra {
namespace {

bool IsMulti(const Op& op) { return op.def->name == "multi_adamw"; }

}  // namespace

Tensor StoredInHalves(const Tensor& plain) {
  // Views of files may be unaligned.
  std::vector<float> values(plain.num_elements());
  std::memcpy(values.data(), plain.data(), plain.bytes());
  Tensor stored(plain.dtype(), plain.shape());
  int64_t count = plain.num_elements();
  StoreHalves(values.data(), 0, count, count, stored.mutable_data());
  return stored;
}

Tensor LoadedFromHalves(const Tensor& stored) {
  Tensor plain(stored.dtype(), stored.shape());
  int64_t count = stored.num_elements();
  LoadHalves(stored.data(), 0, count, count,
             reinterpret_cast<float*>(plain.mutable_data()));
  return plain;
}

bool UpdatesInHalves(const AttrMap& attrs) {
  const AttrValue* given = attrs.Find(kInHalves);
  const bool* is = given == nullptr ? nullptr : std::get_if<bool>(given);
  return is != nullptr && *is;
}

bool ReadsHalves(const Op& op, size_t k) {
  if (op.def->name == kUpperHalf) return true;
  if (!UpdatesInHalves(op.attrs)) return false;
  if (!IsMulti(op)) return k == 0;
  return k >= kAdamWShared && (k - kAdamWShared) % kAdamWOfParam == 0;
}

bool WritesHalves(const Op& op, size_t k) {
  return UpdatesInHalves(op.attrs) && k % kAdamWResults == 0;
}

std::vector<bool> ValuesInHalves(const Program& program) {
  std::vector<bool> is_input(program.values.size()), in(program.values.size());
  for (const Input& input : program.inputs) is_input[input.value] = true;
  for (const Op& op : program.ops) {
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (is_input[op.operands[k]] && ReadsHalves(op, k)) {
        in[op.operands[k]] = true;
      }
    }
    for (size_t k = 0; k < op.results.size(); ++k) {
      if (WritesHalves(op, k)) in[op.results[k]] = true;
    }
  }
  return in;
}

}  // namespace asyra
