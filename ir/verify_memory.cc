#include <map>

#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify_rules.h"

namespace asyra {
namespace {

// A value that owns bytes, with all that reads it or a view of it.
struct Buffer {
  ValueId value = kNoValue;
  int64_t begin = 0, end = 0;  // bytes [begin, end) of the arena
  int def = -1;                // op that writes it; -1: an input
  HappensBefore::Frontier accesses;
  bool kept = false;  // read after the program has ended
};

// Buffers that share a byte must be ordered pairwise. Order is transitive, so
// it is enough that each one is ordered with the last that had the byte:
// `owners_` keeps that one for every byte, and the whole is near-linear.
class Memory {
 public:
  Memory(const Program& program, const HappensBefore& order)
      : program_(program), order_(order) {}

  absl::Status Verify() {
    ASYRA_RETURN_IF_ERROR(MakeBuffers());
    // By definition: inputs first, then results in text order.
    for (const Input& input : program_.inputs) {
      ASYRA_RETURN_IF_ERROR(Place(buffer_of_[input.value]));
    }
    for (const Op& op : program_.ops) {
      for (ValueId value : op.results) {
        if (!op.def->is_view) ASYRA_RETURN_IF_ERROR(Place(buffer_of_[value]));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Value& At(ValueId value) const { return program_.values[value]; }

  // Gives every value its buffer, -1 for those outside the arena.
  absl::Status MakeBuffers() {
    buffer_of_.assign(program_.values.size(), -1);
    for (const Input& input : program_.inputs) {
      if (At(input.value).offset < 0) continue;
      ASYRA_RETURN_IF_ERROR(AddBuffer(input.value, -1));
      buffers_.back().kept = input.role != InputRole::kData;
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(AddResults(program_.ops[i], static_cast<int>(i)));
    }
    for (const Output& output : program_.outputs) {
      int buffer = buffer_of_[output.value];
      if (buffer >= 0) buffers_[buffer].kept = true;
      if (output.alias != kNoValue) {
        replaced_.emplace_back(buffer_of_[output.alias], buffer);
      }
    }
    std::sort(replaced_.begin(), replaced_.end());
    return absl::OkStatus();
  }

  absl::Status AddResults(const Op& op, int index) {
    for (ValueId operand : op.operands) {
      int buffer = buffer_of_[operand];
      if (buffer >= 0) order_.Add(index, &buffers_[buffer].accesses);
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
      } else if (At(result).offset < 0) {
        return OpError(program_, op,
                       fmt::format("%{} has no offset", At(result).name));
      } else {
        ASYRA_RETURN_IF_ERROR(AddBuffer(result, index));
        order_.Add(index, &buffers_.back().accesses);
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddBuffer(ValueId value, int def) {
    int64_t begin = At(value).offset, end = 0;
    int64_t bytes = At(value).type.Local(program_.mesh).bytes();
    if (__builtin_add_overflow(begin, bytes, &end)) {
      return Invalid("%{} at {} with {} bytes ends beyond 2^63", At(value).name,
                     begin, bytes);
    }
    buffer_of_[value] = static_cast<int>(buffers_.size());
    buffers_.push_back(
        {value, begin, end, def, HappensBefore::Frontier(order_)});
    return absl::OkStatus();
  }

  // Checks a buffer against the last owners of its bytes and makes it theirs.
  absl::Status Place(int index) {
    if (index < 0 || buffers_[index].begin == buffers_[index].end) {
      return absl::OkStatus();
    }
    const Buffer& buffer = buffers_[index];
    SplitAt(buffer.begin);
    SplitAt(buffer.end);
    auto first = owners_.lower_bound(buffer.begin);
    auto last = owners_.lower_bound(buffer.end);
    for (auto at = first; at != last; ++at) {
      if (at->second >= 0) {
        ASYRA_RETURN_IF_ERROR(CheckReuse(at->second, index));
      }
    }
    owners_.erase(first, last);
    owners_[buffer.begin] = index;
    return absl::OkStatus();
  }

  // Makes `byte` the begin of a piece.
  void SplitAt(int64_t byte) {
    auto after = owners_.upper_bound(byte);
    int owner = after == owners_.begin() ? -1 : std::prev(after)->second;
    owners_.emplace(byte, owner);
  }

  absl::Status CheckReuse(int old_index, int new_index) const {
    const Buffer& old = buffers_[old_index];
    const Buffer& fresh = buffers_[new_index];
    int unfinished = order_.Unfinished(old.accesses, fresh.def);
    bool replaces = std::binary_search(replaced_.begin(), replaced_.end(),
                                       std::pair(old_index, new_index));
    bool kept = old.kept && !replaces;
    bool both_inputs = fresh.def < 0;
    if (unfinished < 0 && !kept && !both_inputs) return absl::OkStatus();
    std::string why = both_inputs ? "which is an input as well"
                      : kept      ? "which must outlive the program"
                      : old.def == fresh.def
                          ? "which the same op writes"
                          : "which may still be in use by " +
                                ToString(program_, program_.ops[unfinished]);
    return Invalid("{}: %{} at [{}, {}) overwrites %{} at [{}, {}), {}",
                   Definer(program_, fresh.def, fresh.value),
                   At(fresh.value).name, fresh.begin, fresh.end,
                   At(old.value).name, old.begin, old.end, why);
  }

  const Program& program_;
  const HappensBefore& order_;
  std::vector<Buffer> buffers_;
  std::vector<int> buffer_of_;  // by value
  // State inputs and the outputs that replace them, which may lie in place.
  std::vector<std::pair<int, int>> replaced_;
  // From this byte on to the next entry: the buffer last placed there, or -1.
  std::map<int64_t, int> owners_;
};

}  // namespace

absl::Status VerifyMemory(const Program& program, const HappensBefore& order) {
  return Memory(program, order).Verify();
}

}  // namespace asyra
