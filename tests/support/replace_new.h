// Has every allocation of the program go through a function of its own. For the
// one source of it that defines AllocateForNew.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace asyra {

// Memory for free(), or std::bad_alloc. `caller` is the code that allocates.
void* AllocateForNew(std::size_t bytes, std::size_t alignment, void* caller);

}  // namespace asyra

void* operator new(std::size_t bytes) {
  return asyra::AllocateForNew(bytes, alignof(std::max_align_t),
                               __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return asyra::AllocateForNew(bytes, alignof(std::max_align_t),
                               __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return asyra::AllocateForNew(bytes, alignof(std::max_align_t),
                                 __builtin_return_address(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return asyra::AllocateForNew(bytes, alignof(std::max_align_t),
                                 __builtin_return_address(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return asyra::AllocateForNew(bytes, static_cast<std::size_t>(alignment),
                               __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return asyra::AllocateForNew(bytes, static_cast<std::size_t>(alignment),
                               __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
