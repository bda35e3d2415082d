#include "ir/weight_store.h"

namespace asyra {

const Tensor* WeightStore::Find(std::string_view name) const {
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void WeightStore::Set(std::string_view name, Tensor tensor) {
  tensors_.insert_or_assign(std::string(name), std::move(tensor));
}

}  // namespace asyra
