#include "simulator/replay/memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/accumulation.h"
#include "ir/happens_before.h"
#include "ir/memory/buffer_map.h"
#include "ir/memory/memory_blocks.h"
#include "ir/memory/place_blocks.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/replay.h"

namespace asyra {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Buffer {
  int64_t bytes = 0;
  double from_us = 0;
  double until_us = 0;
  int op = -1;  // whose result it is; -1: there from the beginning
};

// The buffers of all values; empty where a value shares that of another.
class Buffers {
 public:
  // `sums` is SummedInPlace of the program.
  Buffers(const Program& program, absl::Span<const OpSpan> spans,
          absl::Span<const ValueId> sums)
      : program_(program),
        map_(program, sums),
        buffers_(program.values.size()) {
    for (const Input& input : program.inputs) {
      Own(input.value, 0, kForever, -1);
    }
    for (size_t i = 0; i < program.ops.size(); ++i) {
      Visit(program.ops[i], spans[i]);
    }
    for (size_t i = 0; i < waited_us_.size(); ++i) {
      if (waited_us_[i] == kForever) continue;
      for (ValueId value : program.ops[i].operands) Read(value, waited_us_[i]);
    }
    for (const Output& output : program.outputs) KeepOutput(output);
  }

  const std::vector<Buffer>& all() const { return buffers_; }

 private:
  void Own(ValueId value, double from_us, double until_us, int op) {
    buffers_[value] = {LocalBytes(program_.type(value), program_.mesh), from_us,
                       until_us, op};
  }
  Buffer& Of(ValueId value) { return buffers_[map_.OwnerOf(value)]; }
  void Read(ValueId value, double until_us) {
    Buffer& buffer = Of(value);
    buffer.until_us = std::max(buffer.until_us, until_us);
  }

  void Visit(const Op& op, const OpSpan& span) {
    map_.Add(op);
    if (IsConstant(op)) {
      for (ValueId value : op.results) Own(value, 0, kForever, -1);
    } else if (!op.def->is_view) {
      for (ValueId value : op.results) {
        if (map_.OwnerOf(value) == value) {
          Own(value, span.start_us, span.end_us, span.op);
        } else {
          Read(value, span.end_us);
        }
      }
    }
    for (ValueId value : op.operands) Read(value, span.end_us);
    if (const Op* start = map_.StartOf(op); start != nullptr) {
      waited_us_.resize(program_.ops.size(), kForever);
      double& waited_us = waited_us_[start - program_.ops.data()];
      waited_us = std::min(waited_us, span.end_us);
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
  BufferMap map_;
  std::vector<Buffer> buffers_;
  // By start, when the first wait for it is over; empty: there are none.
  std::vector<double> waited_us_;
};

struct Change {
  double time_us;
  int64_t bytes;  // negative: freed
};

// Linear while ops are spread over the step: the search sorts more than it
// replays. First into equal parts of the time, as many as there are changes.
std::vector<Change> SortedByTime(absl::Span<const Change> changes) {
  double last_us = 0;
  for (const Change& change : changes) {
    last_us = std::max(last_us, change.time_us);
  }
  double parts_per_us =
      last_us > 0 ? static_cast<double>(changes.size()) / last_us : 0;
  auto part = [&](const Change& change) {
    return static_cast<size_t>(change.time_us * parts_per_us);
  };
  std::vector<uint32_t> end(changes.size() + 2, 0);  // by part
  for (const Change& change : changes) ++end[part(change) + 1];
  std::partial_sum(end.begin(), end.end(), end.begin());
  std::vector<Change> sorted(changes.size());
  for (const Change& change : changes) sorted[end[part(change)]++] = change;
  auto begin = sorted.begin();
  for (size_t p = 0, from = 0; p <= changes.size(); from = end[p++]) {
    if (end[p] - from < 2) continue;
    std::sort(
        begin + static_cast<std::ptrdiff_t>(from),
        begin + static_cast<std::ptrdiff_t>(end[p]),
        [](const Change& a, const Change& b) { return a.time_us < b.time_us; });
  }
  return sorted;
}

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
  std::vector<MemoryPoint> points;
  int64_t live = 0;
  for (const Change& change : SortedByTime(changes)) {
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

// An arena that pass plan_memory gives a program without offsets. Where there
// is a limit it tries both.
int64_t ArenaToPlan(const Program& program, int64_t enough_bytes) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  auto placed = [&](bool in_place) {
    return PlaceBlocks(
               MemoryBlocks(program, order, def_use, in_place),
               {.enough_bytes = enough_bytes, .enough_or_nothing = true})
        .bytes;
  };
  int64_t bytes = placed(/*in_place=*/false);
  if (enough_bytes == 0 || bytes <= enough_bytes) return bytes;
  return std::min(bytes, placed(/*in_place=*/true));
}

// The arena, and the buffers outside it that are resident.
// `enough_bytes` is what both may take; 0: any number.
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
    arena = ArenaToPlan(program, BytesLeft(enough_bytes, outside));
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
  std::vector<ValueId> sums = SummedInPlace(program);
  Buffers buffers(program, spans, sums);
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

MemoryReport ReportMemory(const Program& program, const SimResult& result,
                          const Machine& machine, int64_t enough_bytes) {
  std::vector<ValueId> sums = SummedInPlace(program);
  Buffers buffers(program, result.spans, sums);
  MemoryPoint peak = PeakOf(LiveBytes(buffers.all(), 1));
  MemoryReport report;
  report.live_bytes = peak.live_bytes;
  report.peak_at_us = peak.time_us;
  report.rounded_bytes =
      PeakOf(LiveBytes(buffers.all(), kArenaAlignment)).live_bytes;
  int64_t others =
      LibraryBytes(program, machine) + WorkspaceBytes(program, machine);
  report.arena_bytes =
      ArenaBytes(program, buffers.all(), BytesLeft(enough_bytes, others));
  report.device_bytes = report.arena_bytes + others;
  return report;
}

}  // namespace asyra
