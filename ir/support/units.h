// Times, bytes and counts as people read them: the one place that chooses
// units and digits for what tools print. JSON and CSV have plain numbers, with
// the unit in the name of the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace asyra {

// "154.3 us", "7.53 ms", "34.2 ms", "1.35 s": the next unit from 1000 of one
// on.
std::string TimeText(double us);
// The same of a difference: "+12.3 us", "-34.2 ms".
std::string TimeChangeText(double us);
// Times below each other, all in the unit that the largest takes.
class TimeColumn {
 public:
  explicit TimeColumn(double largest_us);
  // "0.94 ms" beside "13.31 ms", "0.9 ms" beside "433.5 ms".
  std::string Text(double us) const;

 private:
  size_t unit_;
  int digits_;  // behind the point
};
// The same of bytes: "0.98 GiB" beside "3.52 GiB".
class BytesColumn {
 public:
  explicit BytesColumn(int64_t largest);
  std::string Text(int64_t bytes) const;

 private:
  size_t unit_;
  int digits_;
};
// "840 uJ", "13.4 mJ", "2.07 J".
std::string EnergyText(double joules);
// "107 bytes", "4.29 KiB", "345.6 MiB", "1.00 GiB".
std::string BytesText(int64_t bytes);
std::string BytesText(double bytes);
// A number of GiB that is enough for so many bytes, rounded up: "14.86 GiB",
// "0.3376 GiB", "0.000123 GiB". Given back as GiB, it is no fewer bytes.
std::string EnoughGib(int64_t bytes);
// "8.03 G ", "157 k ", "12 ": what it counts goes right behind.
std::string CountText(double count);

}  // namespace asyra
