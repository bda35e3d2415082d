// Checks of numbers on the command line. CLI11's own let NaN and infinity pass.
#pragma once

#include <functional>
#include <string>

namespace asyra {

// For CLI::Option::check: takes the text of a number, and gives what is wrong
// with it: "it is nan, it must be finite and at least 0"; empty: nothing.
using NumberCheck = std::function<std::string(const std::string&)>;

NumberCheck FiniteFrom(double low);           // at least
NumberCheck FiniteAbove(double low);          // more than
NumberCheck Within(double low, double high);  // both included
// `range` in words behind "it must be".
NumberCheck NumberThat(std::function<bool(double)> fits, std::string range);

}  // namespace asyra
