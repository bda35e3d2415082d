// What a mesh leaves undone: ops that all devices of an axis compute
// redundantly, and another mesh of as many devices, or a single device, that
// takes a shorter step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/compile.h"

namespace asyra {

// Of a device's operations, what is too much to be done redundantly by others.
inline constexpr double kWorthAnotherMesh = 0.05;

// What every device of an axis computes, the same as the others.
struct Redundancy {
  std::string axis;
  double share = 0;  // of the operations that a device executes
  std::string ops;   // "2 attention, 8 matmul", most operations first
};

struct MeshAdvice {
  std::vector<Redundancy> redundant;  // by axis, where it is worth telling
  // A mesh as flags give it, and its unscheduled step over that of this mesh.
  std::string better;
  double ratio = 1;
};

// Of a local program, by mesh axis; shares below a hundredth are left out.
std::vector<Redundancy> RedundancyOf(const Program& partitioned);

// Where an axis leaves more than a twentieth undivided, or a remark says that
// it does not divide an op as it should, other meshes are estimated: two axes
// traded by a factor of 2, an axis or all of them free to shard anything. Where
// much communication stays exposed, a single device is. Each is simulated
// unscheduled with a few layers. Empty where nothing is to be said; `better` is
// empty where no mesh gains a twentieth.
MeshAdvice AdviseMesh(const CompileFlags& options, const CompiledModel& result);

// Lines of the report: what is redundant, and the better mesh.
std::string AdviceText(const MeshAdvice& advice);
nlohmann::json AdviceJson(const MeshAdvice& advice);

}  // namespace asyra
