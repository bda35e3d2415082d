#include "executor/cuda/codegen/codegen.h"

#include <algorithm>

#include "executor/cuda/codegen/codegen_plan.h"
#include "fmt/format.h"

namespace asyra::cuda {
namespace {

using Kind = Expression::Kind;
using Node = Expression::Node;

std::string_view CombinerName(ReductionKind kind) {
  constexpr std::string_view kNames[] = {"Plus", "Times", "Larger", "Smaller"};
  return kNames[static_cast<int>(kind)];
}

// The reduction of nothing.
std::string Neutral(ReductionKind kind, Computed type) {
  if (kind == ReductionKind::kSum) return "0";
  if (kind == ReductionKind::kProduct) return "1";
  bool max = kind == ReductionKind::kMax;
  if (type != Computed::kInt) return max ? "-Infinity()" : "Infinity()";
  return max ? "-0x7fffffffffffffffll - 1" : "0x7fffffffffffffffll";
}

class Generator {
 public:
  explicit Generator(const CodegenPlan& plan)
      : plan_(plan), expression_(plan.expression) {}

  std::string Run() {
    text_ = kExpressionPrelude;
    Signature();
    Indices();
    Uniform(0);
    if (plan_.held > 0) HoldRow();
    for (int level = 1; level <= plan_.levels; ++level) {
      ReductionPhase(level);
      Uniform(level);
    }
    StoreRows();
    StoreElements();
    Line(0, "}}");
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void Line(int depth, fmt::format_string<Args...> text, Args&&... args) {
    text_.append(2 * depth, ' ');
    fmt::format_to(std::back_inserter(text_), text,
                   std::forward<Args>(args)...);
    text_ += '\n';
  }

  void Signature() {
    std::string arguments;
    for (size_t k = 0; k < expression_.operands().size(); ++k) {
      fmt::format_to(std::back_inserter(arguments), "{}const {}* in{}",
                     k == 0 ? "" : ", ", TypeName(expression_.operands()[k]),
                     k);
    }
    for (size_t k = 0; k < expression_.results().size(); ++k) {
      fmt::format_to(std::back_inserter(arguments), "{}{}* out{}",
                     arguments.empty() ? "" : ", ",
                     TypeName(expression_.results()[k].dtype), k);
    }
    Line(0, "typedef {} Index;", plan_.wide ? "uint64" : "unsigned");
    Line(0, "extern \"C\" __global__ void __launch_bounds__({})",
         plan_.threads);
    Line(0, "{}({}) {{", kGeneratedName, arguments);
  }

  // `index` as one index NAMEd in each dimension of `sizes`.
  void Split(int depth, std::string_view index, Shape sizes,
             std::string_view name, int64_t vector) {
    if (sizes.empty()) return;
    sizes.back() /= vector;
    Line(depth, "Index rest_{} = {};", name, index);
    for (size_t d = sizes.size(); d-- > 1;) {
      Line(depth, "const Index {0}{1} = rest_{0} % {2}u; rest_{0} /= {2}u;",
           name, d, std::max<int64_t>(1, sizes[d]));
    }
    Line(depth, "const Index {0}0 = rest_{0};", name);
  }

  void Indices() {
    if (plan_.form == CodegenPlan::kElements) {
      Line(1, "const bool live = true;");
      Line(1, "const int lane = 0;");
      return;
    }
    int64_t per_block = plan_.threads / plan_.row_threads;
    if (plan_.form == CodegenPlan::kStripes) {
      Line(1, "const int lane = threadIdx.x / {}u;", per_block);
      Line(1,
           "const Index row = Index(blockIdx.x) * {0}u + threadIdx.x % {0}u;",
           per_block);
    } else {
      Line(1, "const int lane = threadIdx.x % {}u;", plan_.row_threads);
      Line(1, "const Index row = Index(blockIdx.x) * {}u + threadIdx.x / {}u;",
           per_block, plan_.row_threads);
    }
    Line(1, "const bool live = row < {}u;", plan_.loop.num_rows());
    Split(1, "row", plan_.loop.rows, "x", 1);
  }

  // The element of an access at the indices x of the row and y in it.
  std::string Element(const Access& access) const {
    std::string sum = fmt::format("Index({})", access.first);
    size_t rows = plan_.loop.rows.size();
    for (size_t d = 0; d < access.strides.size(); ++d) {
      int64_t stride = access.strides[d];
      if (stride == 0) continue;
      if (d + 1 == access.strides.size() && d >= rows) stride *= plan_.vector;
      fmt::format_to(std::back_inserter(sum), " + {}{} * Index({})",
                     d < rows ? "x" : "y", d < rows ? d : d - rows, stride);
    }
    return sum;
  }

  // The value of a node: r of the whole row, v of an element.
  std::string Name(int node) const {
    return fmt::format("{}{}", plan_.is_uniform[node] ? "r" : "v", node);
  }

  std::string CodeOf(const Node& node) const {
    std::string code;
    for (size_t i = 0; i < node.code.size(); ++i) {
      if (node.code[i] != '$') {
        code += node.code[i];
        continue;
      }
      code += Name(node.inputs[node.code[++i] - '0']);
    }
    return code;
  }

  // Values of whole rows that are known after the reductions of that level.
  void Uniform(int level) {
    for (size_t i = 0; i < expression_.nodes().size(); ++i) {
      const Node& node = expression_.nodes()[i];
      if (!plan_.is_uniform[i] || plan_.level[i] != level) continue;
      if (node.kind == Kind::kReduce) continue;
      std::string code = CodeOf(node);
      if (node.kind == Kind::kPlace) {
        code =
            fmt::format("int64({})", Element(plan_.loop.places[node.operand]));
      } else if (node.kind == Kind::kOperand) {
        code = fmt::format("live ? Load(in{}[{}]) : 0", node.operand,
                           Element(plan_.loop.operands[node.operand]));
      }
      Line(1, "const {} r{} = {};", TypeName(node.type), i, code);
    }
  }

  // Operands of which an element is read for each of a row, or one for a
  // vector.
  void LoadPacks(int depth, std::string_view which) {
    for (size_t k = 0; k < expression_.operands().size(); ++k) {
      if (!plan_.is_packed[k]) continue;
      const Access& access = plan_.loop.operands[k];
      int64_t width = plan_.Width(access), step = plan_.Step(access);
      std::string at = Element(access);
      if (width == 1) {
        Line(depth, "p{}{}.at[0] = in{}[{}];", k, which, k, at);
      } else if (step == 1) {
        Line(depth,
             "p{0}{1} = *reinterpret_cast<const Pack<{2}, {3}>*>(in{0} "
             "+ ({4}));",
             k, which, TypeName(expression_.operands()[k]), width, at);
      } else {
        Line(depth,
             "for (int v = 0; v < {}; ++v) p{}{}.at[v] = in{}[{} + v * "
             "Index({})];",
             width, k, which, k, at, step);
      }
    }
  }

  void DeclarePacks(int depth, std::string_view which) {
    for (size_t k = 0; k < expression_.operands().size(); ++k) {
      if (!plan_.is_packed[k]) continue;
      Line(depth, "Pack<{}, {}> p{}{};", TypeName(expression_.operands()[k]),
           plan_.Width(plan_.loop.operands[k]), k, which);
    }
  }

  void HoldRow() {
    DeclarePacks(1, fmt::format("[{}]", plan_.held));
    Line(1, "#pragma unroll");
    Line(1, "for (int j = 0; j < {}; ++j) {{", plan_.held);
    Line(2, "const Index c = j * {}u + lane;", plan_.row_threads);
    Line(2, "if (!live || c >= {}u) continue;", plan_.vectors);
    Split(2, "c", plan_.loop.columns, "y", plan_.vector);
    LoadPacks(2, "[j]");
    Line(1, "}}");
  }

  // Opens a loop over the vectors of a row, closed by two braces; their
  // elements are then in packs named by what it returns.
  std::string_view OpenColumns(bool needs_indices) {
    if (plan_.held > 0) {
      Line(1, "#pragma unroll");
      Line(1, "for (int j = 0; j < {}; ++j) {{", plan_.held);
      Line(2, "const Index c = j * {}u + lane;", plan_.row_threads);
      Line(2, "if (!live || c >= {}u) continue;", plan_.vectors);
      if (needs_indices) Split(2, "c", plan_.loop.columns, "y", plan_.vector);
      return "[j]";
    }
    if (plan_.form == CodegenPlan::kElements) {
      Line(1, "{{");
      Line(2, "const Index c = Index(blockIdx.x) * {}u + threadIdx.x;",
           plan_.threads);
      Line(2, "if (c >= {}u) return;", plan_.vectors);
    } else {
      Line(1, "#pragma unroll 4");
      Line(1, "for (Index c = lane; c < (live ? {}u : 0u); c += {}u) {{",
           plan_.vectors, plan_.row_threads);
    }
    Split(2, "c", plan_.loop.columns, "y", plan_.vector);
    DeclarePacks(2, "");
    LoadPacks(2, "");
    return "";
  }

  // Computes the inputs of `targets` for each element, in a loop over the
  // vector's lanes that stays open.
  void OpenLanes(std::string_view which, const std::vector<int>& targets) {
    Line(2, "#pragma unroll");
    Line(2, "for (int v = 0; v < {}; ++v) {{", plan_.vector);
    std::vector<bool> needed = plan_.NeededFor(targets);
    for (size_t i = 0; i < needed.size(); ++i) {
      if (!needed[i]) continue;
      const Node& node = expression_.nodes()[i];
      std::string code = CodeOf(node);
      if (node.kind == Kind::kPlace) {
        const Access& access = plan_.loop.places[node.operand];
        code = fmt::format("int64({}) + v * int64({})", Element(access),
                           plan_.Step(access));
      } else if (node.kind == Kind::kOperand) {
        int64_t width = plan_.Width(plan_.loop.operands[node.operand]);
        code = fmt::format("Load(p{}{}.at[{}])", node.operand, which,
                           width == 1 ? "0" : "v");
      }
      Line(3, "const {} v{} = {};", TypeName(node.type), i, code);
    }
  }

  void ReductionPhase(int level) {
    std::vector<int> reductions, inputs;
    for (size_t i = 0; i < expression_.nodes().size(); ++i) {
      const Node& node = expression_.nodes()[i];
      if (node.kind != Kind::kReduce || plan_.level[i] != level) continue;
      reductions.push_back(static_cast<int>(i));
      inputs.push_back(node.inputs[0]);
      Line(1, "{} r{} = {};", TypeName(node.type), i,
           Neutral(node.reduction, node.type));
    }
    std::string_view which = OpenColumns(!plan_.loop.places.empty());
    OpenLanes(which, inputs);
    for (int reduction : reductions) {
      const Node& node = expression_.nodes()[reduction];
      Line(3, "r{0} = {1}(r{0}, {2});", reduction, CombinerName(node.reduction),
           Name(node.inputs[0]));
    }
    Line(2, "}}");
    Line(1, "}}");
    for (int reduction : reductions) {
      plan_.form == CodegenPlan::kStripes ? JoinStripes(reduction)
                                          : JoinRow(reduction);
    }
  }

  // Reduces over all threads of a row, with the result in each of them: first
  // within a warp, then over warps.
  void JoinRow(int reduction) {
    const Node& node = expression_.nodes()[reduction];
    int64_t in_warp = std::min<int64_t>(32, plan_.row_threads);
    int64_t warps = plan_.row_threads / 32;
    auto meet = [&](int64_t threads) {
      Line(1,
           "for (int m = {}; m > 0; m /= 2) r{} = {}(r{}, "
           "__shfl_xor_sync(~0u, r{}, m));",
           threads / 2, reduction, CombinerName(node.reduction), reduction,
           reduction);
    };
    meet(in_warp);
    if (warps <= 1) return;
    Line(1, "__shared__ {} s{}[{}];", TypeName(node.type), reduction,
         plan_.threads / 32);
    Line(1, "if (lane % 32 == 0) s{0}[threadIdx.x / 32] = r{0};", reduction);
    Line(1, "__syncthreads();");
    Line(1, "r{0} = s{0}[threadIdx.x / {1}u * {2} + lane % {2}];", reduction,
         plan_.row_threads, warps);
    meet(warps);
  }

  void JoinStripes(int reduction) {
    const Node& node = expression_.nodes()[reduction];
    int64_t rows = plan_.threads / plan_.row_threads;
    if (plan_.row_threads == 1) return;
    Line(1, "__shared__ {} s{}[{}];", TypeName(node.type), reduction,
         plan_.threads);
    Line(1, "s{0}[threadIdx.x] = r{0};", reduction);
    Line(1, "__syncthreads();");
    Line(1, "r{0} = s{0}[threadIdx.x % {1}u];", reduction, rows);
    Line(1,
         "for (int i = 1; i < {}; ++i) r{} = {}(r{}, s{}[threadIdx.x % {}u "
         "+ i * {}]);",
         plan_.row_threads, reduction, CombinerName(node.reduction), reduction,
         reduction, rows, rows);
  }

  // Results with one element for a row.
  void StoreRows() {
    for (size_t k = 0; k < expression_.results().size(); ++k) {
      if (!plan_.is_row_result[k]) continue;
      Line(1, "if (live && lane == 0) Put({}, out{}[{}]);",
           Name(expression_.results()[k].node), k,
           Element(plan_.loop.results[k]));
    }
  }

  void StoreElements() {
    std::vector<int> targets;
    for (size_t k = 0; k < expression_.results().size(); ++k) {
      if (plan_.is_row_result[k]) continue;
      targets.push_back(expression_.results()[k].node);
    }
    if (targets.empty()) return;
    std::string_view which = OpenColumns(true);
    ForElementResults([&](size_t k, std::string_view type) {
      Line(2, "Pack<{}, {}> q{};", type, plan_.vector, k);
    });
    OpenLanes(which, targets);
    ForElementResults([&](size_t k, std::string_view) {
      Line(3, "Put({}, q{}.at[v]);", Name(expression_.results()[k].node), k);
    });
    Line(2, "}}");
    ForElementResults([&](size_t k, std::string_view type) {
      const Access& access = plan_.loop.results[k];
      std::string at = Element(access);
      if (plan_.Width(access) > 1 && plan_.Step(access) == 1) {
        Line(2, "*reinterpret_cast<Pack<{}, {}>*>(out{} + ({})) = q{};", type,
             plan_.vector, k, at, k);
      } else {
        Line(2,
             "for (int v = 0; v < {}; ++v) out{}[{} + v * Index({})] = "
             "q{}.at[v];",
             plan_.vector, k, at, plan_.Step(access), k);
      }
    });
    Line(1, "}}");
  }

  template <typename Visit>
  void ForElementResults(Visit visit) {
    for (size_t k = 0; k < expression_.results().size(); ++k) {
      if (plan_.is_row_result[k]) continue;
      visit(k, TypeName(expression_.results()[k].dtype));
    }
  }

  const CodegenPlan& plan_;
  const Expression& expression_;
  std::string text_;
};

}  // namespace

GeneratedSource Generate(const Expression& expression, const Loop& loop) {
  CodegenPlan plan = PlanCode(expression, loop);
  GeneratedSource source{.blocks = plan.blocks,
                         .threads = plan.threads,
                         .approximate_division = plan.is_half};
  if (plan.blocks > 0) source.text = Generator(plan).Run();
  return source;
}

}  // namespace asyra::cuda
