#include "tests/steps/allocations.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<int64_t> allocations = 0;

bool IsInOneDnn(void* code) {
  Dl_info info;
  return dladdr(code, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libdnnl") != nullptr;
}

void* Allocate(std::size_t bytes, std::size_t alignment, void* caller) {
  if (!IsInOneDnn(caller)) allocations.fetch_add(1);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) {
    std::abort();
  }
  return memory;
}

}  // namespace

namespace asyra {

int64_t AllocationsSoFar() { return allocations.load(); }

}  // namespace asyra

void* operator new(std::size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment),
                  __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment),
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
