#include "passes/schedule/late_release.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "simulator/memory.h"

namespace asyra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Releaser {
 public:
  Releaser(const CostedProgram& costed, absl::Span<const OpSpan> spans)
      : costed_(costed),
        program_(costed.program()),
        owners_(BufferOwners(program_, spans)),
        is_input_(program_.values.size(), false),
        span_of_(program_.ops.size(), nullptr),
        last_reader_(program_.values.size(), -1),
        needed_us_(program_.values.size(), kNever),
        next_us_(program_.streams.size() + 1, kNever) {
    for (const Input& input : program_.inputs) is_input_[input.value] = true;
    for (const OpSpan& span : spans) {
      span_of_[span.op] = &span;
      by_start_.push_back(span.op);
    }
    absl::c_stable_sort(by_start_, [&](int a, int b) {
      return span_of_[a]->start_us < span_of_[b]->start_us;
    });
    for (int op : by_start_) {
      for (ValueId operand : program_.ops[op].operands) {
        last_reader_[owners_[operand]] = op;
      }
    }
    for (const Output& output : program_.outputs) {
      last_reader_[owners_[output.value]] = -1;
    }
  }

  std::vector<double> Run(double window_us) {
    std::vector<double> release(program_.ops.size(), 0);
    for (size_t i = by_start_.size(); i-- > 0;) {
      int op = by_start_[i];
      double start_us = span_of_[op]->start_us;
      if (!IsFree(op) && Growth(op) > 0) {
        start_us = LatestStart(op);
        release[op] = std::max(0.0, start_us - window_us);
      } else if (IsFree(op)) {
        start_us = std::max(start_us, NeededAt(op));
      }
      for (ValueId operand : program_.ops[op].operands) {
        needed_us_[operand] = std::min(needed_us_[operand], start_us);
      }
    }
    return release;
  }

 private:
  bool IsFree(int op) const { return costed_.op_costs()[op].is_free(); }

  // When the first of its results is read.
  double NeededAt(int op) const {
    double needed_us = kNever;
    for (ValueId result : program_.ops[op].results) {
      needed_us = std::min(needed_us, needed_us_[result]);
    }
    return needed_us == kNever ? span_of_[op]->start_us : needed_us;
  }

  // Not before it did start.
  double LatestStart(int op) {
    const OpSpan& span = *span_of_[op];
    double& next_us = next_us_[span.stream + 1];
    double end_us = std::min(NeededAt(op), next_us);
    double start_us =
        std::max(span.start_us, end_us - (span.end_us - span.start_us));
    next_us = start_us;
    return start_us;
  }

  // Bytes that are alive after the op beyond those before it.
  int64_t Growth(int op) const {
    int64_t bytes = 0;
    for (ValueId result : program_.ops[op].results) {
      if (owners_[result] == result) bytes += BytesOf(result);
    }
    std::vector<ValueId> freed;
    for (ValueId operand : program_.ops[op].operands) {
      ValueId owner = owners_[operand];
      if (last_reader_[owner] != op || absl::c_linear_search(freed, owner)) {
        continue;
      }
      freed.push_back(owner);
      if (!is_input_[owner]) bytes -= BytesOf(owner);
    }
    return bytes;
  }

  int64_t BytesOf(ValueId value) const {
    return LocalBytes(program_.type(value), program_.mesh);
  }

  const CostedProgram& costed_;
  const Program& program_;
  std::vector<ValueId> owners_;
  std::vector<bool> is_input_;          // by value
  std::vector<const OpSpan*> span_of_;  // by op
  std::vector<int> by_start_;
  std::vector<int> last_reader_;   // by owner of a buffer; -1: an output
  std::vector<double> needed_us_;  // by value
  std::vector<double> next_us_;    // by stream, when the op behind starts
};

}  // namespace

std::vector<double> LateReleases(const CostedProgram& costed,
                                 absl::Span<const OpSpan> spans,
                                 double window_us) {
  return Releaser(costed, spans).Run(window_us);
}

}  // namespace asyra
