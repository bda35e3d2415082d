// Choices that a device makes by measuring when kernels are prepared: which
// algorithm of a library computes a matmul. Measured again they may fall out
// otherwise, and results then differ in their last bits: a process measures
// each once, later ones find it on disk (choice_store.h), and ranks agree on
// them (agreement.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/container/btree_map.h"

namespace asyra {

struct Choice {
  std::string value;  // of the device's making
  double us = 0;      // as measured; 0: taken unmeasured, for want of memory

  // The same thing was chosen, whatever it took.
  friend bool operator==(const Choice& a, const Choice& b) {
    return a.value == b.value;
  }
};

// By what they hang on: the use, the model of the device, the versions of its
// libraries. Keys and values are printable, without tabs and line ends.
using Choices = absl::btree_map<std::string, Choice>;

// "microseconds, tab, value".
std::string ToText(const Choice& choice);
std::optional<Choice> ParseChoice(std::string_view text);

// A line for each: "key, tab, choice". Lines that are none are passed over.
std::string ToText(const Choices& choices);
Choices ParseChoices(std::string_view text);

}  // namespace asyra
