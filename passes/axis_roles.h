// What a mesh axis is for, by the names that people give the axes.
#pragma once

#include <string_view>

#include "passes/dim_labels.h"

namespace asyra {

enum class AxisRole : uint8_t { kBatch, kSequence, kModel, kFree };

inline AxisRole RoleOf(std::string_view axis) {
  if (axis == "dp") return AxisRole::kBatch;
  if (axis == "sp") return AxisRole::kSequence;
  if (axis == "tp" || axis == "ep") return AxisRole::kModel;
  return AxisRole::kFree;
}

// An axis is at home in the dimensions it shards throughout the program: data
// axes in those of tokens, model axes in all others. Home axes are outermost,
// so that a guest can come and go: tokens shard over (sp,tp) around a norm and
// over sp beside it, heads over (tp,sp) inside attention and over tp outside.
inline bool IsHome(AxisRole role, DimLabel label) {
  bool data = role == AxisRole::kBatch || role == AxisRole::kSequence;
  return data == (label != DimLabel::kNone);
}

}  // namespace asyra
