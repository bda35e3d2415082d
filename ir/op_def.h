// One definition per op: all its properties that do not depend on a device.
// There is no opcode enum; a new op is a definition in ir/ops plus its line in
// ir/ops/op_list.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/attr.h"
#include "ir/axis_rule.h"
#include "ir/type.h"

namespace asyra {

class Builder;
class Lexer;
struct OpDef;
using ValueId = int32_t;

// One use of an op, as its definition sees it.
struct OpCall {
  const OpDef& def;
  const AttrMap& attrs;  // complete: defaults are filled in
  absl::Span<const Type> operands;
  absl::Span<const Type> results;  // empty while they are being inferred
};

// Work of one device in one execution, from local types; never seconds.
// A view (reshape of contiguous memory) has neither flops nor bytes.
struct Work {
  double flops = 0;       // multiply and add count one each
  double useful = 1;      // the share of them that is not spent on padding
  double read_bytes = 0;  // from device memory, each operand once
  double write_bytes = 0;
  // True if the flops are those of matmuls, on matrix units.
  bool matrix = false;
  // The shape of matmuls: `batch` results of rows x cols each, which kernels
  // compute in blocks. No rows: one result, leading dimensions of result 0
  // being rows.
  double batch = 1;
  double rows = 0;
  double cols = 0;
  // True for 16-bit matmuls whose rows begin at odd elements, so that nothing
  // larger than an element can be loaded at once.
  bool odd_rows = false;
  // Other arithmetic that is between the matmuls, as in attention.
  double vector_flops = 0;
  // The rows of ops that go through rows several times, such as softmax: bytes
  // of a row, and bytes read beyond `read_bytes` where a kernel cannot hold a
  // row.
  double row_bytes = 0;
  double reread_bytes = 0;
  // Device memory that it needs while it runs, such as sums of a wider type.
  double scratch_bytes = 0;
};

// A collective of a group of devices. The payload is the larger of a device's
// operands and results, the "size" of nccl-tests. A shift has no place there:
// each member sends its operand to one other.
enum class CollectiveKind : uint8_t {
  kNone,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kShift,
};
// Returns whether it reduces.
inline bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
         kind == CollectiveKind::kReduceScatter;
}

// The way to compute an op as a part of a larger kernel (ir/body.h). It has one
// result.
enum class Fusable : uint8_t {
  kNo,
  // Each element depends on the elements at the same position of the operands,
  // which broadcast as in NumPy.
  kElement,
  // Each row depends on that row of operand 0: reductions of it, or elements
  // computed from reductions and elements. Rows are along the last dimension;
  // uses that reduce others count as kNo. Operands after the first are single
  // rows.
  kRow,
  // A contraction of operands 0 and 1. It is the first op of its body; the
  // others are elementwise.
  kMatmul,
};

struct OperandDef {
  std::string_view name;
  // kVariadic is the last and stands for one or more; kOptional ones are
  // trailing and may be left out.
  enum Arity : uint8_t { kOne, kOptional, kVariadic } arity = kOne;
};

// The text of a chunk plan, "plan { ... }" behind the body of an op.
struct PlanForm {
  // Parses what comes behind the word, for a body over these operands. Errors
  // name line and column.
  absl::StatusOr<PlanRef> (*parse)(const Body& body,
                                   absl::Span<const Type> operands,
                                   const Mesh& mesh, Lexer* lexer) = nullptr;
  // Returns the lines between the braces.
  std::vector<std::string> (*print)(const ChunkPlan& plan) = nullptr;
};

struct AttrDef {
  std::string_view name;
  AttrKind kind;
  std::string_view doc;
  std::optional<AttrValue> default_value = std::nullopt;  // none: required
  // The values of a string that is one of these, without quotes in the text
  // form.
  std::vector<std::string_view> words = {};
};

// Arguments of a reference implementation: one device's shards.
struct RefCall {
  const OpDef& def;
  const AttrMap& attrs;
  absl::Span<const Type> operand_types;  // distributed, global sizes
  absl::Span<const Type> result_types;
  absl::Span<const Tensor> operands;  // local
  absl::Span<Tensor> results;         // local, zeroed, to be filled
  const Mesh& mesh;
  int64_t device = 0;

  // Global index of the first element this device holds of a dimension.
  int64_t Start(int operand, int dim) const {
    return ShardStart(operand_types[operand].dims[dim], mesh, device);
  }
};

// Arguments of a collective's reference: the shards of one group, in the
// order of GroupIndex over the op's axes. Of one operand and its result: of
// several it is called for each.
struct GroupCall {
  const AttrMap& attrs;
  absl::Span<const Tensor> operands;
  absl::Span<Tensor> results;
};

// A small use of the op for the conformance loop, in the text form:
// "matmul(f32[4,6], f32[6,8]) {transpose_b=false}". Operands are filled with
// small integers in [low, high]. Ops that take distributed values name the mesh
// of their types, "(a=2, b=2)".
struct Sample {
  std::string_view text;
  int low = -3;
  int high = 3;
  std::string_view mesh = "";
};

// Gradient: given the op's operands and results and the gradients of its
// results (-1: zero), appends ops to the builder and returns the gradient of
// each operand (-1: none).
struct VjpCall {
  const AttrMap& attrs;
  absl::Span<const ValueId> operands;
  absl::Span<const ValueId> results;
  absl::Span<const ValueId> gradients;
  // The name of the ops' results.
  std::string_view name = "grad";
};

struct OpDef {
  std::string_view name;
  std::string_view summary;
  std::vector<OperandDef> operands;
  std::vector<AttrDef> attrs = {};

  // Shapes and element types of the results, from global operand types.
  // Refuses with an error that names dimensions and both values; the caller
  // prefixes the op's name.
  absl::StatusOr<std::vector<Type>> (*infer)(const OpCall& call) = nullptr;
  // The axis rule of this use.
  absl::StatusOr<AxisRule> (*axes)(const OpCall& call) = nullptr;
  // Results' distribution where an axis rule cannot say it: collectives and
  // the like, whose rule only says along which dimensions they may be tiled.
  // `call.results` hold what `infer` gave.
  absl::StatusOr<std::vector<Type>> (*distribute)(const OpCall& call,
                                                  const Mesh& mesh) = nullptr;
  // For ops whose attributes repeat a shape (reshape, iota): rewrites them for
  // results of these other sizes. Null: no attribute depends on sizes.
  void (*resize)(AttrMap* attrs, absl::Span<const Type> results) = nullptr;
  // Default (null): bytes of all operands and results, one flop per result
  // element.
  Work (*work)(const OpCall& local) = nullptr;
  // The same from distributed types, where local ones do not say it.
  Work (*work_over)(const OpCall& call, const Mesh& mesh) = nullptr;
  absl::StatusOr<std::vector<ValueId>> (*vjp)(Builder& builder,
                                              const VjpCall& call) = nullptr;
  // A bool attribute that differentiation sets on uses whose gradient it takes:
  // they have more results then, which vjp reads. Empty: there is none.
  std::string_view gradient_attr = {};
  // The meaning of the op, on the host; for collectives, of a whole group.
  absl::Status (*reference)(const RefCall& call) = nullptr;
  absl::Status (*group_reference)(const GroupCall& call) = nullptr;
  std::vector<Sample> samples = {};

  CollectiveKind collective = CollectiveKind::kNone;
  // Takes the future of a `start` and gives its value.
  bool is_wait = false;
  // Cuts out tile `part` of `of`; joins all tiles. They open and close the
  // lanes of tiled programs.
  bool is_tile = false;
  bool is_untile = false;
  // The result is operand 0 under another shape or name: no kernel, no memory.
  bool is_view = false;
  // Each element of a result depends on operand elements at the same place
  // alone, and kernels read a place before they write there: a result may
  // overwrite an operand of its own local shape and type. For collectives: each
  // result may overwrite its own operand, on all members.
  bool in_place = false;
  // Returns whether that holds for an operand and a result, if it depends on
  // the use. Null: it holds for all.
  bool (*result_in_place)(const OpCall& call, int operand,
                          int result) = nullptr;
  Fusable fusable = Fusable::kNo;
  // The op whose measurements tell its time, by the bytes that both move;
  // empty: its own.
  std::string_view priced_as = {};
  // The effect on communication is unknown: nothing is moved across it.
  bool is_barrier = false;
  // Equal to itself with equal operands; false for what draws randomness.
  bool is_pure = true;
  // A negative index counts from the end of the factor it looks up, so rows
  // must not be added there.
  bool counts_from_end = false;
  // The body has collectives (ir/overlap.h): all members of their groups run it
  // together.
  bool body_communicates = false;
  // The text of the attribute `plan`, where there is one.
  PlanForm plan_form = {};
};

// Computed once before the first step and kept: constants.
inline bool IsSetUpOnce(const OpDef& def, size_t operand_count) {
  return operand_count == 0 && def.is_pure;
}

// The definition of that name, or null.
const OpDef* FindOp(std::string_view name);
// All of them, in the order of ir/ops/op_list.cc.
absl::Span<const OpDef* const> AllOps();

// Work of a use from its *distributed* types.
Work WorkOf(const OpCall& call, const Mesh& mesh);

// Attributes that a schedule may set on any op: how it runs, never what it
// computes. An op without one has no entry. The verifier checks them.
//   sm_margin  int: of a computation, how many of the device's SMs its kernels
//              leave to collectives that run beside it
absl::Span<const AttrDef> ScheduleAttrs();
// More SMs than any device has.
inline constexpr int kMaxSmMargin = 65536;
// 0 if it is not set.
int SmMargin(const AttrMap& attrs);

// Finds an attribute of the definition or of a schedule; null: it is neither.
const AttrDef* FindAttr(const OpDef& def, std::string_view name);

// Fills defaults, refuses unknown, missing and ill-typed attributes.
absl::Status CompleteAttrs(const OpDef& def, AttrMap* attrs);

// Types of the results: shape, element type and distribution.
// Errors are prefixed with the op's name.
absl::StatusOr<std::vector<Type>> InferTypes(const OpDef& def,
                                             const AttrMap& attrs,
                                             absl::Span<const Type> operands,
                                             const Mesh& mesh);

// The axis rule of a use; error for ops that have none.
absl::StatusOr<AxisRule> AxisRuleOf(const OpCall& call);

}  // namespace asyra
