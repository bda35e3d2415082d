// A hash that is the same on every machine and in every build.
#pragma once

#include <cstdint>
#include <string_view>

namespace asyra {

// FNV-1a (Fowler, Noll and Vo), 64 bits; `hash` goes on from an earlier text.
constexpr uint64_t Fnv1a(std::string_view text,
                         uint64_t hash = 0xcbf29ce484222325) {
  for (char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace asyra
