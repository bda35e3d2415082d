// Random damage to a file that was good: what a disk, a stranger or an editor
// may make of it.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace asyra {

// One, or with falling odds more, of: bits and bytes changed, ranges removed,
// doubled, moved or cut off, numbers and words replaced by ones that nobody
// should write. Equal seeds give equal bytes.
std::string Damage(std::string bytes, uint64_t seed);

}  // namespace asyra
