#include "simulator/memory.h"

#include <algorithm>
#include <limits>

#include "simulator/cost_model.h"
#include "simulator/replay.h"

namespace asyra {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Buffer {
  int64_t bytes = 0;
  double from_us = 0;
  double until_us = 0;
};

// The buffers of all values; a value that has none of its own (a view, an
// output written in place) maps to that of another.
class Buffers {
 public:
  Buffers(const Program& program, absl::Span<const OpSpan> spans)
      : program_(program),
        buffer_of_(program.values.size(), 0),
        buffers_(program.values.size()) {
    for (size_t i = 0; i < buffer_of_.size(); ++i) {
      buffer_of_[i] = static_cast<ValueId>(i);
    }
    for (const Input& input : program.inputs) {
      Own(input.value, 0, kForever);
    }
    for (size_t i = 0; i < program.ops.size(); ++i) {
      Visit(program.ops[i], spans[i]);
    }
    for (const Output& output : program.outputs) KeepOutput(output);
  }

  const std::vector<Buffer>& all() const { return buffers_; }

 private:
  void Own(ValueId value, double from_us, double until_us) {
    buffers_[value] = {LocalBytes(program_.type(value), program_.mesh), from_us,
                       until_us};
  }
  Buffer& Of(ValueId value) { return buffers_[buffer_of_[value]]; }
  void Read(ValueId value, double until_us) {
    Buffer& buffer = Of(value);
    buffer.until_us = std::max(buffer.until_us, until_us);
  }

  void Visit(const Op& op, const OpSpan& span) {
    if (op.def->is_view || op.def->is_wait) {
      buffer_of_[op.results[0]] = buffer_of_[op.operands[0]];
    } else if (IsSetUpOnce(*op.def, op.operands.size())) {
      for (ValueId value : op.results) Own(value, 0, kForever);
    } else {
      for (ValueId value : op.results) Own(value, span.start_us, span.end_us);
    }
    for (ValueId value : op.operands) Read(value, span.end_us);
    if (op.start) start_operands_.resize(program_.values.size());
    if (op.start) start_operands_[op.results[0]] = &op;
    if (!op.def->is_wait || start_operands_.empty()) return;
    if (const Op* start = start_operands_[op.operands[0]]; start != nullptr) {
      for (ValueId value : start->operands) Read(value, span.end_us);
    }
  }

  void KeepOutput(const Output& output) {
    Buffer& buffer = Of(output.value);
    if (output.alias != kNoValue && buffer.until_us < kForever) {
      buffer.bytes = 0;
    }
    buffer.until_us = kForever;
  }

  const Program& program_;
  std::vector<ValueId> buffer_of_;
  std::vector<Buffer> buffers_;
  std::vector<const Op*> start_operands_;  // by future
};

struct Change {
  double time_us;
  int64_t bytes;  // negative: freed
  friend bool operator<(const Change& a, const Change& b) {
    if (a.time_us != b.time_us) return a.time_us < b.time_us;
    return a.bytes < b.bytes;
  }
};

}  // namespace

MemoryProfile ReplayMemory(const Program& program,
                           absl::Span<const OpSpan> spans) {
  Buffers buffers(program, spans);
  std::vector<Change> changes;
  changes.reserve(2 * program.values.size());
  for (const Buffer& buffer : buffers.all()) {
    if (buffer.bytes == 0) continue;
    changes.push_back({buffer.from_us, buffer.bytes});
    if (buffer.until_us < kForever) {
      changes.push_back({buffer.until_us, -buffer.bytes});
    }
  }
  std::sort(changes.begin(), changes.end());

  MemoryProfile profile;
  int64_t live = 0;
  for (const Change& change : changes) {
    live += change.bytes;
    profile.peak_bytes = std::max(profile.peak_bytes, live);
    if (profile.points.empty() ||
        profile.points.back().time_us != change.time_us) {
      profile.points.push_back({change.time_us, live});
    }
    profile.points.back().live_bytes = live;
  }
  for (const Input& input : program.inputs) {
    if (input.role == InputRole::kData) continue;
    profile.weight_bytes += LocalBytes(program.type(input.value), program.mesh);
  }
  return profile;
}

std::vector<LiveBuffer> LiveBuffersAt(const Program& program,
                                      absl::Span<const OpSpan> spans,
                                      double time_us) {
  Buffers buffers(program, spans);
  std::vector<LiveBuffer> live;
  for (size_t i = 0; i < buffers.all().size(); ++i) {
    const Buffer& buffer = buffers.all()[i];
    if (buffer.bytes == 0 || buffer.from_us > time_us) continue;
    if (buffer.until_us <= time_us) continue;
    live.push_back({static_cast<ValueId>(i), buffer.bytes});
  }
  std::stable_sort(live.begin(), live.end(),
                   [](const LiveBuffer& a, const LiveBuffer& b) {
                     return a.bytes > b.bytes;
                   });
  return live;
}

}  // namespace asyra
