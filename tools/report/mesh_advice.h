// Advice on the mesh: ops that all devices of an axis compute redundantly, and
// another mesh of as many devices, or a single device, with a shorter step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/compile.h"

namespace asyra {

// The share of a device's operations above which redundant computation is
// reported.
inline constexpr double kWorthAnotherMesh = 0.05;

// Redundant computation on all devices of an axis.
struct Redundancy {
  std::string axis;
  double share = 0;  // of the operations that a device executes
  std::string ops;   // "2 attention, 8 matmul", most operations first
};

struct MeshAdvice {
  std::vector<Redundancy> redundant;  // by axis, if it is worth reporting
  // A mesh as flags, and its unscheduled step over that of this mesh.
  std::string better;
  double ratio = 1;
};

// Finds the redundancy of a local program, by mesh axis; shares below a
// hundredth are left out.
std::vector<Redundancy> RedundancyOf(const Program& partitioned);

// If an axis leaves more than a twentieth undivided, or a remark says that it
// does not divide an op as it should, other meshes are estimated: a factor of 2
// moved between two axes, one axis or all of them free to shard anything. A
// single device always is. Each is simulated unscheduled with a few layers.
// Empty if there is nothing to report; `better` is empty if no mesh gains a
// twentieth.
MeshAdvice AdviseMesh(const CompileFlags& options, const CompiledModel& result);

// Lines of the report: what is redundant, and the better mesh.
std::string AdviceText(const MeshAdvice& advice);
nlohmann::json AdviceJson(const MeshAdvice& advice);

}  // namespace asyra
