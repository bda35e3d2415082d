#include "ir/halves.h"

#include "ir/multi_adamw.h"

namespace asyra {
namespace {

bool UpdatesHalves(const Op& op) {
  const AttrValue* given = op.attrs.Find(kInHalves);
  return given != nullptr && std::get_if<bool>(given) != nullptr &&
         std::get<bool>(*given);
}
bool IsMulti(const Op& op) { return op.def->name == "multi_adamw"; }

}  // namespace

void StoreInHalves(const float* from, int64_t count, std::byte* to) {
  std::byte* lower = to + count * sizeof(uint16_t);
  for (int64_t i = 0; i < count; ++i) {
    Halves halves = ToHalves(from[i]);
    std::memcpy(to + i * sizeof(uint16_t), &halves.upper, sizeof(uint16_t));
    std::memcpy(lower + i * sizeof(uint16_t), &halves.lower, sizeof(uint16_t));
  }
}

void LoadFromHalves(const std::byte* from, int64_t count, float* to) {
  const std::byte* lower = from + count * sizeof(uint16_t);
  for (int64_t i = 0; i < count; ++i) {
    Halves halves;
    std::memcpy(&halves.upper, from + i * sizeof(uint16_t), sizeof(uint16_t));
    std::memcpy(&halves.lower, lower + i * sizeof(uint16_t), sizeof(uint16_t));
    to[i] = FromHalves(halves);
  }
}

Tensor StoredInHalves(const Tensor& plain) {
  // Views of files may be unaligned.
  std::vector<float> values(plain.num_elements());
  std::memcpy(values.data(), plain.data(), plain.bytes());
  Tensor stored(plain.dtype(), plain.shape());
  StoreInHalves(values.data(), plain.num_elements(), stored.mutable_data());
  return stored;
}

Tensor LoadedFromHalves(const Tensor& stored) {
  Tensor plain(stored.dtype(), stored.shape());
  LoadFromHalves(stored.data(), stored.num_elements(),
                 reinterpret_cast<float*>(plain.mutable_data()));
  return plain;
}

bool ReadsHalves(const Op& op, size_t k) {
  if (op.def->name == kUpperHalf) return true;
  if (!UpdatesHalves(op)) return false;
  if (!IsMulti(op)) return k == 0;
  return k >= kAdamWShared && (k - kAdamWShared) % kAdamWOfParam == 0;
}

bool WritesHalves(const Op& op, size_t k) {
  return UpdatesHalves(op) && k % kAdamWResults == 0;
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
