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
  Generator(const CodegenPlan& plan, const PeerCode* peers)
      : plan_(plan), expression_(plan.expression), peers_(peers) {}

  std::string Run() {
    text_ = kExpressionPrelude;
    if (peers_ != nullptr) text_ += PeerPrelude(*peers_);
    Signature();
    if (peers_ != nullptr) {
      text_ += MeetAtBegin(*peers_);
      Line(1, "for (Index block = blockIdx.x; block < {}u; block += gridDim.x)",
           plan_.blocks);
      Line(1, "{{");
    }
    Block();
    if (peers_ != nullptr) {
      // Values that rows share are written again for the next ones.
      if (plan_.levels > 0) Line(1, "__syncthreads();");
      Line(1, "}}");
      text_ += MeetAtEnd();
    }
    Line(0, "}}");
    return std::move(text_);
  }

 private:
  // The work of one block.
  void Block() {
    Indices();
    Uniform(0);
    if (plan_.held > 0) HoldRow();
    for (int level = 1; level <= plan_.levels; ++level) {
      ReductionPhase(level);
      Uniform(level);
    }
    StoreRows();
    StoreElements();
  }

  template <typename... Args>
  void Line(int depth, fmt::format_string<Args...> text, Args&&... args) {
    text_.append(2 * depth, ' ');
    fmt::format_to(std::back_inserter(text_), text,
                   std::forward<Args>(args)...);
    text_ += '\n';
  }

  bool IsSummed(size_t operand) const {
    return peers_ != nullptr && static_cast<int>(operand) == peers_->summed;
  }
  bool IsGathered(size_t result) const {
    return peers_ != nullptr && peers_->gathered[result];
  }
  // Names of the addresses of an operand or result: one, or one of each member.
  std::vector<std::string> Addresses(std::string_view prefix, size_t k,
                                     bool of_all) const {
    if (!of_all) return {fmt::format("{}{}", prefix, k)};
    std::vector<std::string> names;
    for (int member = 0; member < peers_->members; ++member) {
      names.push_back(fmt::format("{}{}_{}", prefix, k, member));
    }
    return names;
  }
  std::vector<std::string> OperandAddresses(size_t k) const {
    return Addresses("in", k, IsSummed(k));
  }
  std::vector<std::string> ResultAddresses(size_t k) const {
    return Addresses("out", k, IsGathered(k));
  }

  void Signature() {
    std::string arguments;
    auto add = [&](std::string_view type, const std::string& name) {
      if (!arguments.empty()) arguments += ", ";
      fmt::format_to(std::back_inserter(arguments), "{} {}", type, name);
    };
    for (size_t k = 0; k < expression_.operands().size(); ++k) {
      std::string type =
          fmt::format("const {}*", TypeName(expression_.operands()[k]));
      for (const auto& name : OperandAddresses(k)) add(type, name);
    }
    for (size_t k = 0; k < expression_.results().size(); ++k) {
      std::string type =
          fmt::format("{}*", TypeName(expression_.results()[k].dtype));
      for (const auto& name : ResultAddresses(k)) add(type, name);
    }
    if (peers_ != nullptr) arguments += ", " + PeerArguments(*peers_);
    Line(0, "typedef {} Index;", plan_.wide ? "uint64" : "unsigned");
    Line(0, "extern \"C\" __global__ void __launch_bounds__({})",
         plan_.threads);
    Line(0, "{}({}) {{", kGeneratedName, arguments);
  }

  std::string_view BlockIndex() const {
    return peers_ == nullptr ? "blockIdx.x" : "block";
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
      Line(1, "const Index row = Index({1}) * {0}u + threadIdx.x % {0}u;",
           per_block, BlockIndex());
    } else {
      Line(1, "const int lane = threadIdx.x % {}u;", plan_.row_threads);
      Line(1, "const Index row = Index({}) * {}u + threadIdx.x / {}u;",
           BlockIndex(), per_block, plan_.row_threads);
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
      std::string pack = fmt::format("p{}{}", k, which);
      if (IsSummed(k)) {
        LoadSum(depth, k, pack);
      } else {
        LoadPack(depth, k, OperandAddresses(k)[0], pack);
      }
    }
  }

  void LoadPack(int depth, size_t k, const std::string& from,
                const std::string& pack) {
    const Access& access = plan_.loop.operands[k];
    int64_t width = plan_.Width(access), step = plan_.Step(access);
    std::string at = Element(access);
    if (width == 1) {
      Line(depth, "{}.at[0] = {}[{}];", pack, from, at);
    } else if (step == 1) {
      Line(depth, "{} = *reinterpret_cast<const Pack<{}, {}>*>({} + ({}));",
           pack, TypeName(expression_.operands()[k]), width, from, at);
    } else {
      Line(depth,
           "for (int v = 0; v < {}; ++v) {}.at[v] = {}[{} + v * Index({})];",
           width, pack, from, at, step);
    }
  }

  // Loads the sum of the members' summands in their order, rounded once.
  void LoadSum(int depth, size_t k, const std::string& pack) {
    int64_t width = plan_.Width(plan_.loop.operands[k]);
    std::string sum;
    for (const std::string& from : OperandAddresses(k)) {
      std::string term = fmt::format("of_{}", from);
      Line(depth, "Pack<{}, {}> {};", TypeName(expression_.operands()[k]),
           width, term);
      LoadPack(depth, k, from, term);
      fmt::format_to(std::back_inserter(sum), "{}Load({}.at[v])",
                     sum.empty() ? "" : " + ", term);
    }
    Line(depth, "#pragma unroll");
    Line(depth, "for (int v = 0; v < {}; ++v) Put({}, {}.at[v]);", width, sum,
         pack);
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
      Line(2, "const Index c = Index({}) * {}u + threadIdx.x;", BlockIndex(),
           plan_.threads);
      Line(2, "if (c >= {}u) {};", plan_.vectors,
           peers_ == nullptr ? "return" : "continue");
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
      bool is_dense = plan_.Width(access) > 1 && plan_.Step(access) == 1;
      for (const std::string& out : ResultAddresses(k)) {
        if (is_dense) {
          Line(2, "*reinterpret_cast<Pack<{}, {}>*>({} + ({})) = q{};", type,
               plan_.vector, out, at, k);
        } else {
          Line(2,
               "for (int v = 0; v < {}; ++v) {}[{} + v * Index({})] = "
               "q{}.at[v];",
               plan_.vector, out, at, plan_.Step(access), k);
        }
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
  const PeerCode* peers_;  // null: none
  std::string text_;
};

}  // namespace

bool CanReachPeers(const Expression& expression, const Loop& loop,
                   const PeerCode& peers) {
  CodegenPlan plan = PlanCode(expression, loop);
  if (plan.blocks == 0 || !plan.is_packed[peers.summed]) return false;
  for (size_t k = 0; k < peers.gathered.size(); ++k) {
    if (peers.gathered[k] && plan.is_row_result[k]) return false;
  }
  return true;
}

GeneratedSource Generate(const Expression& expression, const Loop& loop,
                         const PeerCode* peers) {
  CodegenPlan plan = PlanCode(expression, loop);
  GeneratedSource source{.blocks = plan.blocks,
                         .threads = plan.threads,
                         .approximate_division = plan.is_half};
  if (plan.blocks > 0) source.text = Generator(plan, peers).Run();
  return source;
}

}  // namespace asyra::cuda
