#include "simulator/memory.h"

#include <algorithm>
#include <limits>

#include "ir/accumulation.h"
#include "ir/happens_before.h"
#include "ir/memory_blocks.h"
#include "ir/place_blocks.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"
#include "simulator/cost_model.h"
#include "simulator/library_memory.h"
#include "simulator/replay.h"

namespace asyra {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Buffer {
  int64_t bytes = 0;
  double from_us = 0;
  double until_us = 0;
  int op = -1;  // whose result it is; -1: there from the beginning
};

// The buffers of all values; a value that has none of its own (a view, an
// output written in place) maps to that of another.
class Buffers {
 public:
  Buffers(const Program& program, absl::Span<const OpSpan> spans)
      : Buffers(program, spans, SummedInPlace(program)) {}
  Buffers(const Program& program, absl::Span<const OpSpan> spans,
          absl::Span<const ValueId> summed_in_place)
      : program_(program),
        sums_(summed_in_place.begin(), summed_in_place.end()),
        buffer_of_(program.values.size(), 0),
        buffers_(program.values.size()) {
    for (size_t i = 0; i < buffer_of_.size(); ++i) {
      buffer_of_[i] = static_cast<ValueId>(i);
    }
    for (const Input& input : program.inputs) {
      Own(input.value, 0, kForever, -1);
    }
    for (size_t i = 0; i < program.ops.size(); ++i) {
      Visit(program.ops[i], spans[i]);
    }
    for (const Flight& flight : flights_) {
      if (flight.waited_us == kForever) continue;
      for (ValueId value : flight.start->operands) {
        Read(value, flight.waited_us);
      }
    }
    for (const Output& output : program.outputs) KeepOutput(output);
  }

  const std::vector<Buffer>& all() const { return buffers_; }
  const std::vector<ValueId>& owners() const { return buffer_of_; }

 private:
  // A start, and when the first wait for it is over.
  struct Flight {
    const Op* start;
    double waited_us = kForever;
  };

  void Own(ValueId value, double from_us, double until_us, int op) {
    buffers_[value] = {LocalBytes(program_.type(value), program_.mesh), from_us,
                       until_us, op};
  }
  Buffer& Of(ValueId value) { return buffers_[buffer_of_[value]]; }
  void Read(ValueId value, double until_us) {
    Buffer& buffer = Of(value);
    buffer.until_us = std::max(buffer.until_us, until_us);
  }

  void Visit(const Op& op, const OpSpan& span) {
    if (op.def->is_view || op.def->is_wait) {
      buffer_of_[op.results[0]] = buffer_of_[op.operands[0]];
    } else if (IsConstant(op)) {
      for (ValueId value : op.results) Own(value, 0, kForever, -1);
    } else {
      for (size_t r = 0; r < op.results.size(); ++r) {
        ValueId value = op.results[r], under = OperandUnder(op, r);
        if (under != kNoValue) {
          buffer_of_[value] = buffer_of_[under];
          Read(value, span.end_us);
        } else {
          Own(value, span.start_us, span.end_us, span.op);
        }
      }
    }
    for (ValueId value : op.operands) Read(value, span.end_us);
    if (op.start) {
      flight_of_.resize(program_.values.size(), -1);
      for (ValueId value : op.results) {
        flight_of_[value] = static_cast<int>(flights_.size());
      }
      flights_.push_back({&op});
    }
    if (!op.def->is_wait || flight_of_.empty()) return;
    if (int flight = flight_of_[op.operands[0]]; flight >= 0) {
      double& waited_us = flights_[flight].waited_us;
      waited_us = std::min(waited_us, span.end_us);
    }
  }

  // The operand that result `r` is planned to overwrite, or will be.
  ValueId OperandUnder(const Op& op, size_t r) const {
    if (!op.def->in_place) return kNoValue;
    int64_t offset = program_.values[op.results[r]].offset;
    if (offset < 0) return sums_.empty() ? kNoValue : sums_[op.results[r]];
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ValueId operand = op.operands[k];
      if (program_.values[operand].offset == offset &&
          MayOverwrite(program_, op, k, r)) {
        return operand;
      }
    }
    return kNoValue;
  }

  void KeepOutput(const Output& output) {
    Buffer& buffer = Of(output.value);
    if (output.alias != kNoValue && buffer.until_us < kForever) {
      buffer.bytes = 0;
    }
    buffer.until_us = kForever;
  }

  const Program& program_;
  std::vector<ValueId> sums_;  // SummedInPlace
  std::vector<ValueId> buffer_of_;
  std::vector<Buffer> buffers_;
  std::vector<Flight> flights_;
  std::vector<int> flight_of_;  // by future; empty: there are none
};

struct Change {
  double time_us;
  int64_t bytes;  // negative: freed
  friend bool operator<(const Change& a, const Change& b) {
    if (a.time_us != b.time_us) return a.time_us < b.time_us;
    return a.bytes < b.bytes;
  }
};

// Live bytes over time, each buffer rounded up.
std::vector<MemoryPoint> LiveBytes(absl::Span<const Buffer> buffers,
                                   int64_t round_to) {
  std::vector<Change> changes;
  changes.reserve(2 * buffers.size());
  for (const Buffer& buffer : buffers) {
    int64_t bytes = RoundUp(buffer.bytes, round_to);
    if (bytes == 0) continue;
    changes.push_back({buffer.from_us, bytes});
    if (buffer.until_us < kForever) {
      changes.push_back({buffer.until_us, -bytes});
    }
  }
  std::sort(changes.begin(), changes.end());
  std::vector<MemoryPoint> points;
  int64_t live = 0;
  for (const Change& change : changes) {
    live += change.bytes;
    if (points.empty() || points.back().time_us != change.time_us) {
      points.push_back({change.time_us, live});
    }
    points.back().live_bytes = live;
  }
  return points;
}

MemoryPoint PeakOf(absl::Span<const MemoryPoint> points) {
  MemoryPoint peak;
  for (const MemoryPoint& point : points) {
    if (point.live_bytes > peak.live_bytes) peak = point;
  }
  return peak;
}

// The arena that the executor gives a program without offsets.
int64_t ArenaToPlan(const Program& program, int64_t enough_bytes) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  return PlaceBlocks(MemoryBlocks(program, order, def_use, /*in_place=*/false),
                     {.enough_bytes = enough_bytes})
      .bytes;
}

// The arena, and the buffers outside it that are resident.
// `enough_bytes` is what both may take.
int64_t ArenaBytes(const Program& program, absl::Span<const Buffer> buffers,
                   int64_t enough_bytes) {
  int64_t arena = 0, outside = 0;
  for (size_t v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    if (value.offset >= 0) {
      arena =
          std::max(arena, value.offset + LocalBytes(value.type, program.mesh));
    } else if (buffers[v].op < 0) {
      outside += RoundUp(buffers[v].bytes, kArenaAlignment);
    }
  }
  if (program.stage != Stage::kAllocated) {
    arena = ArenaToPlan(program, std::max<int64_t>(0, enough_bytes - outside));
  }
  return outside + RoundUp(arena, kArenaAlignment);
}

}  // namespace

MemoryProfile ReplayMemory(const CostedProgram& costed,
                           absl::Span<const OpSpan> spans) {
  const Program& program = costed.program();
  MemoryProfile profile;
  profile.points =
      LiveBytes(Buffers(program, spans, costed.summed_in_place()).all(), 1);
  profile.peak_bytes = PeakOf(profile.points).live_bytes;
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

int64_t ResidentBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Input& input : program.inputs) {
    bytes += LocalBytes(program.type(input.value), program.mesh);
  }
  return bytes;
}

std::vector<ValueId> BufferOwners(const Program& program,
                                  absl::Span<const OpSpan> spans) {
  return Buffers(program, spans).owners();
}

MemoryReport ReportMemory(const Program& program, const SimResult& result,
                          const Machine& machine, int64_t enough_bytes) {
  Buffers buffers(program, result.spans);
  MemoryPoint peak = PeakOf(LiveBytes(buffers.all(), 1));
  MemoryReport report;
  report.live_bytes = peak.live_bytes;
  report.peak_at_us = peak.time_us;
  report.rounded_bytes =
      PeakOf(LiveBytes(buffers.all(), kArenaAlignment)).live_bytes;
  int64_t others =
      LibraryBytes(program, machine) + WorkspaceBytes(program, machine);
  report.arena_bytes =
      ArenaBytes(program, buffers.all(), enough_bytes - others);
  report.device_bytes = report.arena_bytes + others;
  return report;
}

}  // namespace asyra
