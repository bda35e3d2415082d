// Quantities as people read them.
#pragma once

#include <string>

namespace asyra {

// "1.5 GiB", three digits.
std::string Bytes(double bytes);
// "8.03 G ", "157 k ", "12 ": what it counts goes right behind.
std::string Scaled(double value);

}  // namespace asyra
