#include "frontends/onnx/exported_names.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/support/exporter_names.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

bool IsFoldedName(std::string_view name) {
  constexpr std::string_view kVal = "val_", kMatMul = "onnx::MatMul_";
  return (name.starts_with(kVal) && AllDigits(name.substr(kVal.size()))) ||
         (name.starts_with(kMatMul) && AllDigits(name.substr(kMatMul.size())));
}

// The strings of "['', 'm.layers.0', 'linear']".
std::vector<std::string> QuotedStrings(std::string_view list) {
  std::vector<std::string> strings;
  for (size_t at = 0; at < list.size(); ++at) {
    char quote = list[at];
    if (quote != '\'' && quote != '"') continue;
    size_t end = list.find(quote, at + 1);
    if (end == std::string_view::npos) break;
    strings.emplace_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  return strings;
}

std::string Metadata(const onnx::NodeProto& node, std::string_view key) {
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return "";
}

// The module of a linear layer whose matmul the node is.
std::optional<std::string> LinearModule(const onnx::NodeProto& node,
                                        std::string_view weight) {
  std::vector<std::string> scopes =
      QuotedStrings(Metadata(node, "pkg.torch.onnx.name_scopes"));
  if (scopes.size() >= 2) {
    const std::string& module = scopes[scopes.size() - 2];
    if (!scopes.back().starts_with("linear") || module.empty()) return {};
    return module;
  }
  if (!weight.starts_with("onnx::")) return {};
  std::vector<std::string> path =
      absl::StrSplit(node.name(), '/', absl::SkipEmpty());
  if (path.size() < 2 || !node.name().starts_with('/')) return {};
  path.pop_back();
  return absl::StrJoin(path, ".");
}

// The last component, in lower case: "logit_scale" of "m.logit_scale".
std::string LastWord(std::string_view name) {
  size_t at = name.find_last_of("./:");
  std::string word(at == std::string_view::npos ? name : name.substr(at + 1));
  absl::AsciiStrToLower(&word);
  return word;
}

// c, c13, val_7, const_fold_4, 17. A letter of a module ("pool.p"), or one that
// names a vector, is a name.
bool IsMadeUp(std::string_view name, std::string_view word, int rank) {
  // The second one is the first where a program names the tensor.
  constexpr std::string_view kMade[] = {"onnx::",       "onnx__", "Constant",
                                        "const_",       "const.", "ortshared",
                                        "scalar_tensor"};
  for (std::string_view made : kMade) {
    if (name.find(made) != std::string_view::npos) return true;
  }
  size_t letters = 0;
  while (letters < word.size() &&
         absl::ascii_isalpha(static_cast<unsigned char>(word[letters]))) {
    ++letters;
  }
  std::string_view stem = word.substr(0, letters), rest = word.substr(letters);
  while (!rest.empty() && rest[0] == '_') rest.remove_prefix(1);
  bool numbered = rest.empty() || AllDigits(rest);
  constexpr std::string_view kStems[] = {"val",    "const", "constant",
                                         "scalar", "num",   "number",
                                         "tensor", "lit",   "literal"};
  bool letter = stem.size() == 1 && word.size() == 1;
  if (letter && (name.size() > 1 || rank > 0)) return false;
  bool made_stem =
      stem.size() <= 1 ||
      std::find(std::begin(kStems), std::end(kStems), stem) != std::end(kStems);
  return numbered && made_stem;
}

bool IsNumberWord(std::string_view word) {
  constexpr std::string_view kWords[] = {
      "zero", "one",     "two",       "three",   "four",      "six",
      "ten",  "half",    "third",     "quarter", "pi",        "sqrt2",
      "inf",  "neg_inf", "minus_inf", "neg_one", "minus_one", "sqrt_2",
      "min",  "max",     "low",       "lowest"};
  return std::find(std::begin(kWords), std::end(kWords), word) !=
         std::end(kWords);
}

// Keeps a division or a root from zero. The learned epsilon of a graph network
// (GIN), by which a node counts itself, begins as 0.
bool IsEpsilon(std::string_view word, double number) {
  constexpr double kMost = 0.01;
  bool named =
      word == "eps" || word.ends_with("_eps") || word.ends_with("epsilon");
  return named && number > 0 && number <= kMost;
}

// A root of a whole number, or one over it, as widths of heads are divided by.
bool IsRootOfSize(double number) {
  auto whole = [](double x) {
    return x >= 2 && std::abs(x - std::round(x)) < 1e-5 * x;
  };
  return number > 0 && (whole(number * number) || whole(1 / (number * number)));
}

}  // namespace

std::map<std::string, ExportedName, std::less<>> ExportedNames(
    const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string_view> folded, taken;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    taken.insert(tensor.name());
    if (tensor.dims_size() == 2 && IsFoldedName(tensor.name())) {
      folded.insert(tensor.name());
    }
  }
  std::map<std::string, ExportedName, std::less<>> names;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() != "MatMul" || node.input_size() != 2) continue;
    const std::string& weight = node.input(1);
    if (!folded.contains(weight) || names.contains(weight)) continue;
    std::optional<std::string> module = LinearModule(node, weight);
    if (!module.has_value()) continue;
    std::string name = *module + ".weight";
    if (taken.contains(name)) continue;
    names[weight] = {std::move(name), /*transposed=*/true};
  }
  return names;
}

bool IsMadeUpName(std::string_view name, int rank) {
  return IsMadeUp(name, LastWord(name), rank) || IsExporterName(name);
}

bool MayBeParameter(std::string_view name, const Tensor& number) {
  constexpr double kHides = 1e4;
  double value = number.Get(0);
  std::string word = LastWord(name);
  if (!(std::abs(value) < kHides) || IsMadeUp(name, word, number.rank()) ||
      IsNumberWord(word) || IsEpsilon(word, value) || IsExporterName(name)) {
    return false;
  }
  bool scales = word.ends_with("scale") || word.ends_with("scaling") ||
                word.ends_with("factor");
  return !(scales && IsRootOfSize(value));
}

}  // namespace asyra::onnx_import
