// One step of a program on one device, simulated or measured: the input of
// reports, pages and comparisons. Written as JSON, and read from JSON or from a
// trace (profile_json.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/replay.h"
#include "simulator/report/step_shape.h"

namespace asyra {

// The work of a queue of an overlap (plan_cost.h), in us from the begin of the
// program.
struct ProfileStep {
  std::string queue;  // "copy 0"
  std::string name;   // "copy %2[0:4, 0:8] to %2[0:4, 0:8] of rank 1"
  bool is_copy = false;
  double start_us = 0;
  double end_us = 0;
};

// An op that takes time.
struct ProfileOp {
  std::string name;  // of its first result, "layer3.q_proj.t0"
  std::string op;    // "matmul"
  std::string type;  // of that result
  int stream = 0;    // index into Profile::streams
  double start_us = 0;
  double end_us = 0;
  double alone_us = 0;  // with nothing else running; 0: unknown
  std::string axes;     // of a collective; empty: computation
  int64_t bytes = 0;    // payload of a collective
  // The axes of a kernel that communicates itself (ir/plans/fused_reduction.h);
  // it counts as computation.
  std::string kernel_axes;
  std::string source;      // of the estimate, "interpolated"
  std::string limit;       // the limiting resource, "memory"
  std::string waited_for;  // the last wait before it: "data", "stream", "host"
  int wait = -1;           // of a started collective: the op that waited for it
  bool critical = false;   // on the critical path
  // The collective's share of the time in which no computation runs, and the
  // reason (ExposedCollective); 0: hidden, or unknown.
  double exposed_us = 0;
  std::string exposed_by;          // "no independent work"
  std::vector<ProfileStep> steps;  // of an overlap, in order of their ends

  bool is_collective() const { return !axes.empty(); }
  double duration_us() const { return end_us - start_us; }
};

struct ProfileBuffer {
  std::string name, type;
  std::string kind;  // "weight", "state", "input", "constant", "activation"
  int64_t bytes = 0;
};

struct ProfileShare {
  std::string name;
  double us = 0;
};

struct ProfileExposure {
  std::string axes;
  double comm_us = 0;
  double exposed_us = 0;
};

struct Profile {
  std::string model;    // as the user named it
  std::string machine;  // empty: measured
  std::string mesh;     // "(dp=2, tp=4)"
  int64_t devices = 1;
  StepShape step;

  std::vector<std::string> notes;  // further notes, a line each

  double makespan_us = 0;
  // The noise of the search as a share of the makespan (SearchNoise); 0: no
  // search, or unknown.
  double noise = 0;
  double lower_bound_us = 0;   // 0: not known
  double compute_us = 0;       // some computation runs
  double comm_us = 0;          // some collective runs
  double exposed_comm_us = 0;  // some collective and no computation
  double bubble = 0;           // 1 - compute_us / makespan_us
  // Flops of the model's matmuls, each once, over those that all devices could
  // do in that time at their dense peak; 0: unknown.
  double mfu = 0;
  int collectives = 0;
  // In long rows of steps: the clock and its highest, the mean power of a
  // device; 0: not known.
  double clock_mhz = 0, most_mhz = 0, watts = 0;

  std::vector<std::string> streams;
  std::vector<ProfileOp> ops;  // in issue order
  std::vector<ProfileExposure> exposed;
  // The makespan by the source of the costs on the critical path: one entry per
  // source, and "host" for the time in which no op of it runs.
  std::vector<ProfileShare> sources;
  // The time that each resource would be busy with all ops at full use.
  std::vector<ProfileShare> resources;

  int64_t peak_bytes = 0;  // live; 0: not known
  // The same rounded, placed in one arena, and with the memory of libraries
  // (MemoryReport); 0: unknown.
  int64_t rounded_bytes = 0, arena_bytes = 0, device_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t capacity_bytes = 0;          // of the device; 0: not limited
  double peak_us = 0;                  // when it is reached first
  std::vector<ProfileBuffer> at_peak;  // largest first
  std::vector<MemoryPoint> memory;
};

struct ProfileOptions {
  std::string model;
  StepShape step = {};
  double noise = 0;          // Profile
  double capacity_gib = -1;  // as CapacityBytes (library_memory.h) takes it
  int64_t budget_bytes = 0;  // of live bytes, as in ExposureOptions
};

// `result` is what Simulate gave for `program`, critical path and memory
// included.
Profile MakeProfile(const Program& program, const SimResult& result,
                    const CostModel& costs, const ProfileOptions& options);

// Profile::mfu of a program that takes `makespan_us`. A matmul of a type that
// the matrix units do not support counts with the vector peak.
double ModelFlopUtilization(const Program& program, const Machine& machine,
                            double makespan_us);

// Computes from `ops`: makespan_us, compute_us, comm_us, exposed_comm_us,
// bubble, exposed, collectives.
void SumUp(Profile* profile);

// The energy of all devices for a token, image or sample of the step, in J; 0:
// not known.
double EnergyPerToken(const Profile& profile);

// Returns whether makespans differ by less than the larger of their noises, so
// that neither counts as faster.
bool IsTie(double a_us, double a_noise, double b_us, double b_noise);

// OK, or by how much the peak exceeds the capacity, and what fills it. The peak
// is that of the device, of live bytes where that is not known.
absl::Status CheckCapacity(const Profile& profile);

}  // namespace asyra
