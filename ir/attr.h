// Attributes: the parameters of an op, known at compile time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

struct Body;
struct ChunkPlan;

// A body (ir/body.h) as a value: shared by copies and never changed.
class BodyRef {
 public:
  explicit BodyRef(Body body);
  const Body& operator*() const { return *body_; }
  const Body* operator->() const { return body_.get(); }
  friend bool operator==(const BodyRef& a, const BodyRef& b);

 private:
  std::shared_ptr<const Body> body_;
};

// A chunk plan (ir/plans/chunk_plan.h) as a value, or none: shared by copies,
// never changed, and proven by whoever made it (ProvenPlan,
// ir/plans/verify_plan.h).
class PlanRef {
 public:
  PlanRef() = default;
  // Null: none.
  const ChunkPlan* get() const { return plan_.get(); }
  const ChunkPlan& operator*() const { return *plan_; }
  const ChunkPlan* operator->() const { return plan_.get(); }
  friend bool operator==(const PlanRef& a, const PlanRef& b);
  friend absl::StatusOr<PlanRef> ProvenPlan(ChunkPlan plan);

 private:
  explicit PlanRef(std::shared_ptr<const ChunkPlan> plan)
      : plan_(std::move(plan)) {}

  std::shared_ptr<const ChunkPlan> plan_;
};

// The order is that of AttrKind.
using Ints = std::vector<int64_t>;
using AttrValue = std::variant<bool, int64_t, double, std::string, Ints,
                               AxisList, DType, Tensor, BodyRef, PlanRef>;
enum class AttrKind {
  kBool,
  kInt,
  kFloat,
  kString,
  kInts,
  kAxes,
  kDType,
  kTensor,
  kBody,
  kPlan
};
inline AttrKind KindOf(const AttrValue& value) {
  return static_cast<AttrKind>(value.index());
}
std::string_view ToString(AttrKind kind);

bool operator==(const Tensor& a, const Tensor& b);  // SameBytes

// A small map sorted by name.
class AttrMap {
 public:
  AttrMap() = default;
  AttrMap(std::initializer_list<std::pair<std::string, AttrValue>> entries);

  const AttrValue* Find(std::string_view name) const;
  void Set(std::string_view name, AttrValue value);
  void Erase(std::string_view name);

  // The value, which must exist and be of that kind; verified ops have every
  // attribute their definition lists, since defaults are filled in.
  template <typename T>
  const T& Get(std::string_view name) const {
    return std::get<T>(*Find(name));
  }
  bool Bool(std::string_view name) const { return Get<bool>(name); }
  int64_t Int(std::string_view name) const { return Get<int64_t>(name); }
  double Float(std::string_view name) const { return Get<double>(name); }

  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  friend bool operator==(const AttrMap& a, const AttrMap& b) {
    return a.entries_ == b.entries_;
  }

 private:
  std::vector<std::pair<std::string, AttrValue>> entries_;
};

}  // namespace asyra
