#include "ir/gpu/epilogue.h"

#include <array>

#include "fmt/format.h"

namespace asyra {
namespace {

using Activation = Epilogue::Activation;

// By number.
constexpr std::array<std::string_view, 3> kActivations = {"", "relu",
                                                          "gelu_tanh"};

Activation ActivationOf(const OpDef& def) {
  for (size_t i = 1; i < kActivations.size(); ++i) {
    if (def.name == kActivations[i]) return static_cast<Activation>(i);
  }
  return Epilogue::kNone;
}

bool HasEpilogues(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32;
}

// One row of `whole`, whatever leading dimensions of size 1 it has.
bool IsRowOf(const Type& row, const Type& whole) {
  if (row.rank() == 0 || row.rank() > whole.rank()) return false;
  int64_t size = whole.size(whole.rank() - 1);
  return row.size(row.rank() - 1) == size && row.num_elements() == size;
}

class Reader {
 public:
  Reader(const Body& body, std::vector<Type> types)
      : body_(body), types_(std::move(types)) {}

  std::optional<Epilogue> Run() {
    at_ = body_.num_operands;
    if (!HasEpilogues(types_[at_].dtype)) return std::nullopt;
    for (size_t i = 1; i < body_.ops.size(); ++i) {
      if (epilogue_.activation != Epilogue::kNone) return std::nullopt;
      if (!Take(body_.ops[i])) return std::nullopt;
      at_ = body_.num_operands + static_cast<int>(i);
    }
    if (body_.results != std::vector<int>{at_}) return std::nullopt;
    return epilogue_;
  }

 private:
  // Enters an op on the current value.
  bool Take(const BodyOp& op) {
    static const OpDef* const add = FindOp("add");
    if (op.def != add) {
      epilogue_.activation = ActivationOf(*op.def);
      if (epilogue_.activation == Epilogue::kGeluTanh &&
          types_[at_].dtype != DType::kBF16) {
        return false;
      }
      return epilogue_.activation != Epilogue::kNone && op.operands[0] == at_;
    }
    int a = op.operands[0], b = op.operands[1];
    if (a == at_) return Add(b);
    return b == at_ && Add(a);
  }

  bool Add(int value) {
    if (value >= body_.num_operands) return false;
    if (epilogue_.residual < 0 && types_[value] == types_[at_]) {
      epilogue_.residual = value;
      return true;
    }
    if (epilogue_.bias >= 0 || types_[at_].dtype != types_[0].dtype ||
        !IsRowOf(types_[value], types_[at_])) {
      return false;
    }
    epilogue_.bias = value;
    return true;
  }

  const Body& body_;
  std::vector<Type> types_;  // by value, global
  int at_ = 0;               // the value so far
  Epilogue epilogue_;
};

}  // namespace

std::optional<Epilogue> EpilogueOf(const Body& body,
                                   absl::Span<const Type> operands) {
  if (!BeginsWithMatmul(body)) return std::nullopt;
  std::vector<Type> global;
  for (const Type& type : operands) global.push_back(type.Global());
  auto types = BodyTypes(body, global, Mesh());
  if (!types.ok()) return std::nullopt;
  return Reader(body, *std::move(types)).Run();
}

std::string ToString(const Epilogue& epilogue) {
  std::string text;
  auto add = [&](bool is_there, std::string_view name) {
    if (!is_there) return;
    text += fmt::format("{}{}", text.empty() ? "" : "+", name);
  };
  add(epilogue.residual >= 0, "residual");
  add(epilogue.bias >= 0, "bias");
  add(epilogue.activation != Epilogue::kNone,
      kActivations[epilogue.activation]);
  return text.empty() ? "none" : text;
}

}  // namespace asyra
