#include "frontends/onnx/weight_operands.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "frontends/onnx/op_check.h"
#include "frontends/onnx/opsets.h"
#include "frontends/onnx/tensor_proto.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

// Ops whose result has the elements of operand 0, or a part of them.
constexpr std::string_view kViews[] = {"Identity", "Cast",      "CastLike",
                                       "Reshape",  "Transpose", "Flatten",
                                       "Squeeze",  "Unsqueeze", "Dropout"};
constexpr std::string_view kParts[] = {"Slice", "Split"};

enum class Use {
  kMatmul,  // of matrices, or batches of them
  kKernel,  // never a batch of data
  kTable,   // rows that indices pick
};

struct WeightUse {
  std::string_view op;  // spelled with its domain
  int first, last;      // operands
  Use use;
};
constexpr WeightUse kWeightUses[] = {
    {"MatMul", 1, 1, Use::kMatmul},
    {"Gemm", 1, 1, Use::kMatmul},
    {"Einsum", 1, 99, Use::kMatmul},
    {"Conv", 1, 1, Use::kKernel},
    {"ConvTranspose", 1, 1, Use::kKernel},
    {"Gather", 0, 0, Use::kTable},
    {"com.microsoft:FusedMatMul", 1, 1, Use::kMatmul},
    {"com.microsoft:FusedGemm", 1, 1, Use::kMatmul},
    {"com.microsoft:Attention", 1, 1, Use::kMatmul},
    {"com.microsoft:EmbedLayerNormalization", 2, 4, Use::kTable},
    {"com.microsoft:MoE", 2, 2, Use::kKernel},
    {"com.microsoft:MoE", 4, 4, Use::kKernel},
    {"com.microsoft:MoE", 6, 6, Use::kKernel},
};

bool Contains(absl::Span<const std::string_view> list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// The origin of a value: all of its elements come from `sources`.
struct Origin {
  std::vector<int> sources;  // ascending
  bool part = false;         // of a larger tensor
  bool constant = false;     // stored in the file, whatever its type

  auto operator<=>(const Origin&) const = default;
};

// Names here and around a subgraph.
struct Names {
  const Names* outer = nullptr;
  absl::flat_hash_map<std::string_view, Origin> origins;

  Origin Find(std::string_view name) const {
    auto found = origins.find(name);
    if (found != origins.end()) return found->second;
    return outer == nullptr ? Origin() : outer->Find(name);
  }
};

class Finder {
 public:
  explicit Finder(Bodies& bodies) : bodies_(bodies) {}

  std::vector<WeightSource> Run(const onnx::GraphProto& graph, const Body& body,
                                absl::Span<const GraphInput> inputs) {
    Names names;
    for (const GraphInput& input : inputs) {
      if (!IsFloat(input.type.dtype)) continue;
      names.origins[input.name] =
          NewSource({&input, input.type.rank(), input.type.num_elements()});
    }
    EnterInitializers(graph, &names);
    Visit(body, &names);
    return std::move(sources_);
  }

 private:
  Origin NewSource(WeightSource source) {
    sources_.push_back(source);
    return {.sources = {static_cast<int>(sources_.size()) - 1}};
  }

  Origin StoredOrigin(const onnx::TensorProto& tensor) {
    Origin origin;
    absl::StatusOr<DType> dtype = DTypeFromOnnx(tensor.data_type());
    // Importing the tensor reports a shape that is wrong.
    if (tensor.dims_size() >= 2 && dtype.ok() && IsFloat(*dtype) &&
        CheckShape(tensor.dims()).ok()) {
      int64_t elements = 1;
      for (int64_t dim : tensor.dims()) elements *= dim;
      origin = NewSource({nullptr, tensor.dims_size(), elements});
    }
    origin.constant = true;
    return origin;
  }

  void EnterInitializers(const onnx::GraphProto& graph, Names* names) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      names->origins[tensor.name()] = StoredOrigin(tensor);
    }
  }

  void Visit(const Body& body, Names* names) {
    for (const onnx::NodeProto* node : body.nodes) {
      if (const Function* function = bodies_.FindFunction(*node)) {
        Call(*node, *function, names);
        continue;
      }
      MarkOperands(*node, *names);
      Origin origin = OriginOf(*node, *names);
      for (const std::string& output : node->output()) {
        names->origins[output] = origin;
      }
      for (const onnx::GraphProto* graph : SubgraphsOf(*node)) {
        // Errors of a subgraph matter only if it is imported.
        absl::StatusOr<const Body*> inner = bodies_.Subgraph(*graph);
        if (!inner.ok()) continue;
        Names own{.outer = names, .origins = {}};
        for (std::string_view input : (*inner)->inputs) own.origins[input] = {};
        EnterInitializers(*graph, &own);
        Visit(**inner, &own);
      }
    }
  }

  void Call(const onnx::NodeProto& node, const Function& function,
            Names* names) {
    std::vector<Origin> inputs;
    for (const std::string& name : node.input()) {
      inputs.push_back(names->Find(name));
    }
    const std::vector<Origin>& outputs = OutputsOf(function, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (static_cast<int>(i) >= node.output_size()) break;
      names->origins[node.output(static_cast<int>(i))] = outputs[i];
    }
  }

  // Looks at a function once for each origin of its inputs: calls within calls
  // may be many. None for one that is being looked at, or is too deep: it is
  // called in a branch that is never taken.
  const std::vector<Origin>& OutputsOf(const Function& function,
                                       const std::vector<Origin>& inputs) {
    auto key = std::make_pair(&function, inputs);
    auto [entry, added] = calls_.try_emplace(key);
    if (!added || depth_ == kMostNesting) return entry->second;
    Names own;
    const Body& body = function.body;
    for (size_t i = 0; i < std::min(body.inputs.size(), inputs.size()); ++i) {
      own.origins[body.inputs[i]] = inputs[i];
    }
    ++depth_;
    Visit(body, &own);
    --depth_;
    for (std::string_view output : body.outputs) {
      entry->second.push_back(own.Find(output));
    }
    return entry->second;
  }

  static bool IsLookup(const onnx::NodeProto& node, const Names& names) {
    return node.op_type() == "Gather" && node.input_size() > 1 &&
           !names.Find(node.input(1)).constant;
  }

  Origin OriginOf(const onnx::NodeProto& node, const Names& names) {
    const std::string& op = node.op_type();
    if (op == "Constant") {
      for (const onnx::AttributeProto& attr : node.attribute()) {
        if (attr.has_t()) return StoredOrigin(attr.t());
      }
      return {.sources = {}, .part = false, .constant = true};
    }
    if (node.input_size() == 0) return {};
    Origin origin = names.Find(node.input(0));
    if (Contains(kViews, op)) return origin;
    if (Contains(kParts, op) || (op == "Gather" && !IsLookup(node, names))) {
      origin.part = true;
      return origin;
    }
    if (op != "Concat") return {};
    for (int i = 1; i < node.input_size(); ++i) {
      Origin next = names.Find(node.input(i));
      if (next.sources.empty()) return {};
      origin.sources.insert(origin.sources.end(), next.sources.begin(),
                            next.sources.end());
      origin.part |= next.part;
    }
    std::sort(origin.sources.begin(), origin.sources.end());
    origin.sources.erase(
        std::unique(origin.sources.begin(), origin.sources.end()),
        origin.sources.end());
    return origin;
  }

  void MarkOperands(const onnx::NodeProto& node, const Names& names) {
    std::string op = SpelledOp(node.domain(), node.op_type());
    for (const WeightUse& use : kWeightUses) {
      if (use.op != op) continue;
      for (int i = 0; i < node.input_size(); ++i) {
        bool weight = use.first <= i && i <= use.last;
        if (!weight && use.use != Use::kMatmul) continue;
        if (use.op == "Gather" && !IsLookup(node, names)) continue;
        Origin origin = names.Find(node.input(i));
        for (int source : origin.sources) {
          // Matmuls of the file's tensors may have them first.
          if (!weight && sources_[source].input != nullptr) continue;
          Mark(use.use, origin.part, &sources_[source]);
        }
      }
    }
  }

  static void Mark(Use use, bool part, WeightSource* source) {
    bool evident = use == Use::kKernel ? source->rank >= 3 : source->rank == 2;
    evident |= use == Use::kMatmul && part && source->rank > 2;
    // Experts are stacked; activations of rank 4 have a batch and heads.
    bool stack = use == Use::kMatmul && source->rank == 3;
    source->is_evident |= evident;
    source->is_operand |= evident || stack;
  }

  Bodies& bodies_;
  std::vector<WeightSource> sources_;
  std::map<std::pair<const Function*, std::vector<Origin>>, std::vector<Origin>>
      calls_;
  int depth_ = 0;
};

}  // namespace

std::vector<WeightSource> FindWeightOperands(
    const onnx::GraphProto& graph, const Body& body, Bodies& bodies,
    absl::Span<const GraphInput> inputs) {
  return Finder(bodies).Run(graph, body, inputs);
}

}  // namespace asyra::onnx_import
