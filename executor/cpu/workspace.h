// Parts of a kernel's workspace, laid out when it is prepared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asyra::cpu {

class WorkspaceLayout {
 public:
  // Returns the offset of a part of that size, aligned for vectors.
  int64_t Add(int64_t bytes) {
    int64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

template <typename T>
T* WorkspaceAt(void* workspace, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
}

}  // namespace asyra::cpu
