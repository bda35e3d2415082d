#include "tools/what_if/mesh_grid.h"

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr char kAuto[] = "auto";

// Adds meshes of the axes from `first` on to those before it.
void AddMeshes(int64_t ranks, const std::vector<std::string>& axes,
               size_t first, const std::string& before,
               std::vector<std::string>* meshes) {
  auto with = [&](int64_t size) {
    if (size == 1) return before;
    return fmt::format("{}{}{}={}", before, before.empty() ? "" : ",",
                       axes[first], size);
  };
  if (first + 1 == axes.size()) {
    std::string mesh = with(ranks);
    meshes->push_back(mesh.empty() ? axes[0] + "=1" : mesh);
    return;
  }
  for (int64_t size = ranks; size >= 1; --size) {
    if (ranks % size == 0) {
      AddMeshes(ranks / size, axes, first + 1, with(size), meshes);
    }
  }
}

absl::StatusOr<bool> HasExperts(const CompileFlags& base) {
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(base));
  return absl::c_any_of(model.raised.program.ops, [](const Op& op) {
    return op.def->name == "moe_dispatch";
  });
}

}  // namespace

std::vector<std::string> MeshesOf(int64_t ranks,
                                  const std::vector<std::string>& axes) {
  std::vector<std::string> meshes;
  AddMeshes(ranks, axes, 0, "", &meshes);
  return meshes;
}

absl::Status ExpandMeshes(const CompileFlags& base,
                          std::vector<GridAxis>* grid) {
  for (GridAxis& axis : *grid) {
    if (axis.key != "mesh" || !absl::c_linear_search(axis.values, kAuto)) {
      continue;
    }
    if (axis.values.size() > 1) {
      return Invalid("--grid mesh: auto stands alone");
    }
    if (!base.ranks.has_value()) {
      return Invalid(
          "--grid mesh=auto: there is no --ranks, of how many "
          "devices the meshes are");
    }
    ASYRA_ASSIGN_OR_RETURN(bool experts, HasExperts(base));
    std::vector<std::string> axes = {"dp", "sp", "tp"};
    if (experts) axes.insert(axes.begin() + 1, "ep");
    axis.values = MeshesOf(*base.ranks, axes);
  }
  return absl::OkStatus();
}

}  // namespace asyra
