#include <map>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify/verify_rules.h"

namespace asyra {
namespace {

// A value that owns bytes, with all ops that read it or a view of it.
struct Buffer {
  ValueId value = kNoValue;
  int64_t begin = -1, end = -1;  // bytes [begin, end) of the arena; -1: outside
  int def = -1;                  // op that writes it; -1: an input
  HappensBefore::Frontier accesses;
  std::vector<int> ops = {};  // the same, each of them
  bool kept = false;          // there after the program has ended
  bool is_output = false;     // and read as it is now
};

// Goes by what the program says alone, and not by BufferMap
// (ir/memory/buffer_map.h), which the planners that it checks have in common.
//
// Buffers that share a byte must be ordered pairwise. Order is transitive, so
// it is enough that each one is ordered with the last that had the byte:
// `owners_` keeps that one for every byte, and the whole is near-linear.
class Memory {
 public:
  Memory(const Program& program, const DefUse& def_use,
         const HappensBefore& order)
      : program_(program), def_use_(def_use), order_(order) {}

  absl::Status Verify() {
    ASYRA_RETURN_IF_ERROR(MakeBuffers());
    // By definition: inputs first, then results in program order.
    for (const Input& input : program_.inputs) {
      ASYRA_RETURN_IF_ERROR(Place(buffer_of_[input.value]));
    }
    for (const Op& op : program_.ops) {
      if (op.def->is_view) continue;
      for (ValueId value : op.results) {
        ASYRA_RETURN_IF_ERROR(Place(buffer_of_[value]));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Value& At(ValueId value) const { return program_.values[value]; }

  absl::Status MakeBuffers() {
    buffer_of_.assign(program_.values.size(), -1);
    for (const Input& input : program_.inputs) {
      ASYRA_RETURN_IF_ERROR(AddBuffer(input.value, -1));
      buffers_.back().kept = input.role != InputRole::kData;
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(AddOp(program_.ops[i], static_cast<int>(i)));
    }
    for (const Output& output : program_.outputs) {
      Buffer& buffer = buffers_[buffer_of_[output.value]];
      buffer.kept = buffer.is_output = true;
      if (output.alias == kNoValue) continue;
      replaces_[buffer.value].push_back(output.alias);
    }
    return absl::OkStatus();
  }

  absl::Status AddOp(const Op& op, int index) {
    for (ValueId operand : op.operands) {
      Access(buffer_of_[operand], index);
      // Until its first wait, which comes later in program order.
      if (op.start) Access(buffer_of_[operand], def_use_.FirstWait(op));
    }
    for (ValueId result : op.results) {
      if (op.def->is_view) {
        if (At(result).offset != At(op.operands[0]).offset) {
          return OpError(
              program_, op,
              fmt::format("a view at {} of a value at {}", At(result).offset,
                          At(op.operands[0]).offset));
        }
        buffer_of_[result] = buffer_of_[op.operands[0]];
      } else {
        ASYRA_RETURN_IF_ERROR(AddBuffer(result, index));
        Access(buffer_of_[result], index);
        if (!IsConstant(op)) continue;
        buffers_.back().kept = true;
        if (At(result).offset < 0) continue;
        return OpError(program_, op,
                       fmt::format("a constant has offset {} in the arena: it "
                                   "is computed before the first step",
                                   At(result).offset));
      }
    }
    return absl::OkStatus();
  }

  void Access(int buffer, int op) {
    order_.Add(op, &buffers_[buffer].accesses);
    buffers_[buffer].ops.push_back(op);
  }

  absl::Status AddBuffer(ValueId value, int def) {
    Buffer buffer{value, -1, -1, def, HappensBefore::Frontier(order_)};
    if (At(value).offset >= 0) {
      int64_t bytes = LocalType(value).bytes();
      buffer.begin = At(value).offset;
      if (__builtin_add_overflow(buffer.begin, bytes, &buffer.end)) {
        return Invalid("%{} at {} with {} bytes ends beyond 2^63",
                       At(value).name, buffer.begin, bytes);
      }
    }
    buffer_of_[value] = static_cast<int>(buffers_.size());
    buffers_.push_back(std::move(buffer));
    return absl::OkStatus();
  }

  // Checks a buffer against the last owners of its bytes and makes it theirs.
  absl::Status Place(int index) {
    const Buffer& buffer = buffers_[index];
    if (buffer.begin < 0) return PlaceOutside(buffer);
    if (buffer.begin == buffer.end) return absl::OkStatus();
    SplitAt(buffer.begin);
    SplitAt(buffer.end);
    auto first = owners_.lower_bound(buffer.begin);
    auto last = owners_.lower_bound(buffer.end);
    for (auto at = first; at != last; ++at) {
      if (at->second >= 0) {
        ASYRA_RETURN_IF_ERROR(CheckReuse(buffers_[at->second], buffer));
      }
    }
    owners_.erase(first, last);
    owners_[buffer.begin] = index;
    return absl::OkStatus();
  }

  absl::Status PlaceOutside(const Buffer& buffer) const {
    if (buffer.def < 0 || IsConstant(program_.ops[buffer.def])) {
      return absl::OkStatus();
    }
    auto at = replaces_.find(buffer.value);
    if (at == replaces_.end()) {
      return OpError(program_, program_.ops[buffer.def],
                     fmt::format("%{} has no offset", At(buffer.value).name));
    }
    ValueId state = at->second.front();
    const Buffer& old = buffers_[buffer_of_[state]];
    if (old.begin < 0) return CheckReuse(old, buffer);
    return OpError(
        program_, program_.ops[buffer.def],
        fmt::format("%{} has no offset, the state %{} that it "
                    "replaces is at {}",
                    At(buffer.value).name, At(state).name, old.begin));
  }

  // Makes `byte` the begin of a piece.
  void SplitAt(int64_t byte) {
    auto after = owners_.upper_bound(byte);
    int owner = after == owners_.begin() ? -1 : std::prev(after)->second;
    owners_.emplace(byte, owner);
  }

  std::string Span(const Buffer& buffer) const {
    if (buffer.begin < 0) return fmt::format("%{}", At(buffer.value).name);
    return fmt::format("%{} at [{}, {})", At(buffer.value).name, buffer.begin,
                       buffer.end);
  }

  absl::Status CheckReuse(const Buffer& old, const Buffer& fresh) const {
    bool kept =
        old.is_output || (old.kept && !Replaces(fresh.value, old.value));
    bool both_inputs = fresh.def < 0;
    int unfinished = -1;
    if (!both_inputs && !kept) {
      unfinished = order_.Unfinished(old.accesses, fresh.def);
      if (unfinished < 0 || IsInPlace(old, fresh)) return absl::OkStatus();
    }
    std::string why = both_inputs ? "which is an input as well"
                      : kept      ? "which must outlive the program"
                      : old.def == fresh.def
                          ? "which the same op writes"
                          : "which may still be in use by " +
                                ToString(program_, program_.ops[unfinished]);
    return Invalid("{}: {} overwrites {}, {}",
                   Definer(program_, fresh.def, fresh.value), Span(fresh),
                   Span(old), why);
  }

  bool Replaces(ValueId fresh, ValueId old) const {
    auto at = replaces_.find(fresh);
    return at != replaces_.end() && absl::c_linear_search(at->second, old);
  }

  // The op that writes `fresh` reads the same bytes in place, and no other op
  // reads them any more.
  bool IsInPlace(const Buffer& old, const Buffer& fresh) const {
    const Op& op = program_.ops[fresh.def];
    if (old.begin != fresh.begin || old.def == fresh.def) return false;
    int wait = op.start ? def_use_.FirstWait(op) : fresh.def;
    for (int access : old.ops) {
      bool own = access == fresh.def || access == wait;
      if (!own && !order_.Finished(access, fresh.def)) return false;
    }
    Type type = LocalType(fresh.value);
    auto result = static_cast<size_t>(absl::c_find(op.results, fresh.value) -
                                      op.results.begin());
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (&buffers_[buffer_of_[op.operands[k]]] != &old) continue;
      if (LocalType(op.operands[k]) != type ||
          !MayOverwrite(program_, op, k, result)) {
        return false;
      }
    }
    return true;
  }

  Type LocalType(ValueId value) const {
    return At(value).type.Local(program_.mesh);
  }

  const Program& program_;
  const DefUse& def_use_;
  const HappensBefore& order_;
  std::vector<Buffer> buffers_;
  std::vector<int> buffer_of_;  // by value
  // States that outputs replace, by the value that an output is or is a view
  // of.
  absl::flat_hash_map<ValueId, absl::InlinedVector<ValueId, 1>> replaces_;
  // From this byte to the next entry: the last buffer there, or -1.
  std::map<int64_t, int> owners_;
};

}  // namespace

absl::Status VerifyMemory(const Program& program, const DefUse& def_use,
                          const HappensBefore& order) {
  return Memory(program, def_use, order).Verify();
}

}  // namespace asyra
