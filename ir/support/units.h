// Times, bytes and counts as people read them: the one place that chooses
// units and digits for what tools print. JSON and CSV have plain numbers, with
// the unit in the name of the field.
#pragma once

#include <cstdint>
#include <string>

namespace asyra {

// "9999.9 us", "34.2 ms", "34.2 s": the next unit from 10,000 of one on.
std::string TimeText(double us);
// The same of a difference: "+12.3 us", "-34.2 ms".
std::string TimeChangeText(double us);
// "107 bytes", "4.29 KiB", "345.6 MiB", "1.00 GiB".
std::string BytesText(int64_t bytes);
std::string BytesText(double bytes);
// "8.03 G ", "157 k ", "12 ": what it counts goes right behind.
std::string CountText(double count);

}  // namespace asyra
