#include "tools/what_if/sweep_grid.h"

#include <charconv>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "tools/idle_flags.h"

namespace asyra {
namespace {

constexpr size_t kMostPoints = 100000;

// A grid key is one of these, or has one of the prefixes.
struct IntKey {
  std::string_view name;
  int64_t CompileFlags::*field;
};
constexpr IntKey kIntKeys[] = {
    {"dp", &CompileFlags::dp},
    {"tp", &CompileFlags::tp},
    {"sp", &CompileFlags::sp},
    {"ep", &CompileFlags::ep},
    {"nodes", &CompileFlags::nodes},
    {"expert-capacity", &CompileFlags::expert_capacity},
    {"head-parts", &CompileFlags::head_parts},
};
struct TextKey {
  std::string_view name;
  std::string CompileFlags::*field;
};
constexpr TextKey kTextKeys[] = {
    {"shard", &CompileFlags::shard},
    {"tp-strategy", &CompileFlags::tp_strategy},
    {"ep-strategy", &CompileFlags::ep_strategy},
    {"stripes", &CompileFlags::stripes},
    {"scheduler", &CompileFlags::scheduler},
    {"reduce-scatter", &CompileFlags::reduce_scatter},
    {"over-hosts", &CompileFlags::over_hosts},
    {"key-walk", &CompileFlags::key_walk},
    {"machine", &CompileFlags::machine},
    {"ranks-as", &CompileFlags::ranks_as},
    {"passes", &CompileFlags::passes},
};
struct ListKey {
  std::string_view prefix;
  std::vector<std::string> CompileFlags::*field;
};
constexpr ListKey kListKeys[] = {
    {"dim.", &CompileFlags::dims},
    {"set.", &CompileFlags::set},
};
constexpr std::string_view kTiles = "tiles";
constexpr std::string_view kMesh = "mesh";  // instead of these flags
constexpr std::string_view kAxisFlags[] = {"--dp", "--tp", "--sp", "--ep"};
constexpr std::string_view kGraph = "graph";  // 0 or 1

bool Parse(std::string_view text, int64_t* value) {
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end;
}

bool IsKnown(std::string_view key) {
  if (key == kTiles || key == kMesh || key == kGraph) return true;
  for (const IntKey& known : kIntKeys) {
    if (key == known.name) return true;
  }
  for (const TextKey& known : kTextKeys) {
    if (key == known.name) return true;
  }
  for (const ListKey& known : kListKeys) {
    if (key.substr(0, 4) == known.prefix && key.size() > 4) return true;
  }
  return false;
}

std::string KnownKeys() {
  std::string text = fmt::format("{}, {}, {}", kTiles, kMesh, kGraph);
  for (const IntKey& known : kIntKeys) text += fmt::format(", {}", known.name);
  for (const TextKey& known : kTextKeys) {
    text += fmt::format(", {}", known.name);
  }
  return text + ", dim.NAME, set.KEY";
}

absl::Status Apply(const std::string& key, const std::string& value,
                   CompileFlags* options) {
  int64_t number = 0;
  bool is_number = Parse(value, &number);
  auto wrong = [&] {
    return Invalid("--grid {}: '{}' is no integer", key, value);
  };
  if (key == kTiles) {
    if (!is_number || number > INT32_MAX) return wrong();
    options->tiles = static_cast<int>(number);
  }
  if (key == kMesh) options->mesh = value;
  if (key == kGraph) {
    if (value != "0" && value != "1") {
      return Invalid("--grid {}: '{}' is neither 0 nor 1", key, value);
    }
    options->graph = number == 1;
  }
  for (const IntKey& known : kIntKeys) {
    if (key != known.name) continue;
    if (!is_number) return wrong();
    options->*known.field = number;
  }
  for (const TextKey& known : kTextKeys) {
    if (key == known.name) options->*known.field = value;
  }
  for (const ListKey& known : kListKeys) {
    if (key.rfind(known.prefix, 0) != 0) continue;
    std::vector<std::string>& list = options->*known.field;
    std::string name = key.substr(known.prefix.size()) + "=";
    // A point's value replaces that of the flag.
    std::erase_if(list, [&](const std::string& item) {
      return item.rfind(name, 0) == 0;
    });
    list.push_back(name + value);
  }
  return absl::OkStatus();
}

// A wrong mesh is the point's error; a program file's own mesh is not known
// yet.
bool HasOtherRanks(const CompileFlags& options) {
  absl::StatusOr<Mesh> mesh = MeshOf(options);
  if (!mesh.ok()) return false;
  if (mesh->num_axes() == 0 && options.model.ends_with(".asyra")) return false;
  return !CheckRanks(options, *mesh).ok();
}

std::string FlagOf(const std::string& key) {
  return FlagOfGrid(kGridFlag + key);
}

// Error if values of the flags are replaced by those of `key`.
absl::Status CheckNotReplaced(const std::vector<std::string>& given,
                              const CompileFlags& base,
                              const std::string& key) {
  for (const ListKey& known : kListKeys) {
    if (!key.starts_with(known.prefix)) continue;
    std::string name = key.substr(known.prefix.size());
    for (const std::string& item : base.*known.field) {
      if (!item.starts_with(name + "=")) continue;
      return Invalid("{} {} has no effect with --grid {}", FlagOf(key), item,
                     key);
    }
    return absl::OkStatus();
  }
  bool is_mesh = key == kMesh;
  for (const std::string& flag : given) {
    bool of_mesh = absl::c_linear_search(kAxisFlags, flag);
    if (flag == FlagOf(key) || (is_mesh && of_mesh)) {
      return Invalid("{} has no effect with --grid {}", flag, key);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGridFlags(const std::vector<std::string>& given,
                            const CompileFlags& base,
                            const std::vector<GridAxis>& grid) {
  bool has_mesh = base.mesh.has_value();
  for (const GridAxis& axis : grid) has_mesh |= axis.key == kMesh;
  std::vector<std::string> flags = given;
  for (const GridAxis& axis : grid) {
    ASYRA_RETURN_IF_ERROR(CheckNotReplaced(given, base, axis.key));
    if (has_mesh && absl::c_linear_search(kAxisFlags, FlagOf(axis.key))) {
      return Invalid("--grid {} has no effect with {}", axis.key,
                     base.mesh.has_value() ? "--mesh" : "--grid mesh");
    }
    flags.push_back(kGridFlag + axis.key);
  }
  ASYRA_ASSIGN_OR_RETURN(GridPoints points, Combine(base, grid));
  return CheckNoneIdle(flags, points.compile);
}

absl::StatusOr<std::vector<GridAxis>> ParseGrid(
    const std::vector<std::string>& grid) {
  std::vector<GridAxis> axes;
  for (const std::string& text : grid) {
    size_t equal = text.find('=');
    GridAxis axis{text.substr(0, equal), {}};
    if (equal == std::string::npos || equal == 0 || equal + 1 == text.size()) {
      return Invalid("--grid {}: expected KEY=VALUE,VALUE,...", text);
    }
    if (!IsKnown(axis.key)) {
      return Invalid("--grid {}: unknown key {}; there are {}", text, axis.key,
                     KnownKeys());
    }
    std::string values = text.substr(equal + 1);
    char separator = values.find(';') == std::string::npos ? ',' : ';';
    axis.values = absl::StrSplit(values, separator);
    std::set<std::string> seen;
    for (const std::string& value : axis.values) {
      if (value.empty()) return Invalid("--grid {}: an empty value", text);
      if (!seen.insert(value).second) {
        return Invalid("--grid {}: the value {} is given twice", text, value);
      }
    }
    for (const GridAxis& other : axes) {
      if (other.key == axis.key) {
        return Invalid("--grid {}: the key {} is given twice", text, axis.key);
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

absl::StatusOr<GridPoints> Combine(const CompileFlags& base,
                                   const std::vector<GridAxis>& grid) {
  GridPoints all{{{}}, {base}};
  for (const GridAxis& axis : grid) {
    if (all.values.size() * axis.values.size() > kMostPoints) {
      return Invalid("--grid: more than {} points", kMostPoints);
    }
    GridPoints more;
    for (size_t i = 0; i < all.values.size(); ++i) {
      for (const std::string& value : axis.values) {
        more.values.push_back(all.values[i]);
        more.values.back().push_back(value);
        more.compile.push_back(all.compile[i]);
        ASYRA_RETURN_IF_ERROR(Apply(axis.key, value, &more.compile.back()));
      }
    }
    all = std::move(more);
  }
  return all;
}

void AddUnchanged(const std::vector<GridAxis>& grid, GridPoints* all) {
  std::set<std::vector<std::string>> seen;
  size_t count = all->values.size();
  for (size_t i = 0; i < count; ++i) {
    if (all->compile[i].set.empty()) continue;
    std::vector<std::string> values = all->values[i];
    for (size_t k = 0; k < grid.size(); ++k) {
      if (grid[k].key.starts_with("set.")) values[k].clear();
    }
    if (!seen.insert(values).second) continue;
    all->values.push_back(std::move(values));
    all->compile.push_back(all->compile[i]);
    all->compile.back().set.clear();
  }
}

size_t KeepRanks(GridPoints* grid) {
  GridPoints kept;
  for (size_t i = 0; i < grid->values.size(); ++i) {
    if (HasOtherRanks(grid->compile[i])) continue;
    kept.values.push_back(std::move(grid->values[i]));
    kept.compile.push_back(std::move(grid->compile[i]));
  }
  size_t skipped = grid->values.size() - kept.values.size();
  *grid = std::move(kept);
  return skipped;
}

}  // namespace asyra
