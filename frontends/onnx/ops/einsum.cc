// Einsum, by transposes, sums and matmuls of two operands at a time.
#include <cctype>
#include <map>
#include <set>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// A label of a dimension: a letter, or -1, -2, ... for the dimensions of an
// ellipsis, counted from its end.
using Labels = std::vector<int>;
using LabelSet = std::set<int>;

struct Term {
  Value value;
  Labels labels;
  int Find(int label) const {
    auto at = std::find(labels.begin(), labels.end(), label);
    return at == labels.end() ? -1 : static_cast<int>(at - labels.begin());
  }
};

// "b...i" for a value of that rank; -1: as many as `ellipsis` says.
absl::StatusOr<Labels> ParseTerm(std::string_view text, int rank,
                                 int ellipsis) {
  Labels labels;
  size_t dots = text.find("...");
  int letters =
      static_cast<int>(text.size()) - (dots == std::string_view::npos ? 0 : 3);
  if (rank >= 0) ellipsis = rank - letters;
  if (ellipsis < 0 ||
      (dots == std::string_view::npos && rank >= 0 && ellipsis != 0)) {
    return Invalid("term '{}' for an input of rank {}", text, rank);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (int k = ellipsis; k > 0; --k) labels.push_back(-k);
      i += 2;
    } else if (!std::isalpha(static_cast<unsigned char>(text[i]))) {
      return Invalid("'{}' in term '{}'", text[i], text);
    } else if (std::find(labels.begin(), labels.end(), text[i]) !=
               labels.end()) {
      return Unimplemented("label {} twice in term '{}' is not supported",
                           text[i], text);
    } else {
      labels.push_back(text[i]);
    }
  }
  return labels;
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

// Without "->", the output has the labels that occur once, sorted, after the
// ellipsis.
Labels ImplicitOutput(const std::vector<Labels>& inputs) {
  std::map<int, int> count;
  for (const Labels& labels : inputs) {
    for (int label : labels) ++count[label];
  }
  Labels output;
  for (auto [label, times] : count) {
    if (label < 0 || times == 1) output.push_back(label);
  }
  return output;
}

absl::StatusOr<Equation> ParseEquation(Node& node) {
  std::string text;
  for (char c : node.String("equation", "")) {
    if (c != ' ') text += c;
  }
  Equation equation;
  size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  int ellipsis = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    size_t comma = left.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == node.num_inputs())) {
      return Invalid("equation '{}' for {} inputs", text, node.num_inputs());
    }
    ASYRA_ASSIGN_OR_RETURN(Labels labels,
                           ParseTerm(left.substr(0, comma), node.rank(i), 0));
    for (int label : labels) ellipsis = std::max(ellipsis, -label);
    equation.inputs.push_back(std::move(labels));
    if (comma != std::string_view::npos) left.remove_prefix(comma + 1);
  }
  if (arrow == std::string::npos) {
    equation.output = ImplicitOutput(equation.inputs);
    return equation;
  }
  ASYRA_ASSIGN_OR_RETURN(
      equation.output,
      ParseTerm(std::string_view(text).substr(arrow + 2), -1, ellipsis));
  return equation;
}

// The term summed over labels that are not in `keep`.
absl::StatusOr<Term> SumOut(Node& node, const Term& term,
                            const LabelSet& keep) {
  Ints dims;
  Labels labels;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (keep.count(term.labels[i]) > 0) {
      labels.push_back(term.labels[i]);
    } else {
      dims.push_back(static_cast<int64_t>(i));
    }
  }
  if (dims.empty()) return term;
  ASYRA_ASSIGN_OR_RETURN(Value value,
                         node.graph().Add("reduce_sum", {term.value},
                                          {{"dims", dims}, {"keep", false}}));
  return Term{std::move(value), std::move(labels)};
}

// The term's dimensions in that order.
absl::StatusOr<Value> InOrder(Node& node, const Term& term,
                              const Labels& labels) {
  Ints perm;
  for (int label : labels) perm.push_back(term.Find(label));
  return node.graph().Transpose(term.value, perm);
}

Labels Joined(const Labels& a, const Labels& b) {
  Labels both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

// The dimensions of both terms, by the sides they are on.
struct Sides {
  Labels batch, contracted, left, right;
  Sides(const Term& a, const Term& b, const LabelSet& keep) {
    for (int label : a.labels) {
      Labels& side = b.Find(label) < 0       ? left
                     : keep.count(label) > 0 ? batch
                                             : contracted;
      side.push_back(label);
    }
    for (int label : b.labels) {
      if (a.Find(label) < 0) right.push_back(label);
    }
  }
};

// Product of two terms, summed over what is not in `keep`.
absl::StatusOr<Term> Product(Node& node, const Term& first, const Term& second,
                             const LabelSet& keep) {
  Graph& graph = node.graph();
  LabelSet in_first = keep, in_second = keep;
  in_first.insert(second.labels.begin(), second.labels.end());
  in_second.insert(first.labels.begin(), first.labels.end());
  ASYRA_ASSIGN_OR_RETURN(Term a, SumOut(node, first, in_first));
  ASYRA_ASSIGN_OR_RETURN(Term b, SumOut(node, second, in_second));
  Sides sides(a, b, keep);
  for (int label : sides.contracted) {
    int64_t of_a = a.value.type().size(a.Find(label));
    int64_t of_b = b.value.type().size(b.Find(label));
    if (of_a != of_b) {
      return Invalid("a label has sizes {} and {}", of_a, of_b);
    }
  }
  ASYRA_ASSIGN_OR_RETURN(
      Value x,
      InOrder(node, a,
              Joined(sides.batch, Joined(sides.left, sides.contracted))));
  ASYRA_ASSIGN_OR_RETURN(
      Value y,
      InOrder(node, b,
              Joined(sides.batch, Joined(sides.contracted, sides.right))));
  size_t batch = sides.batch.size();
  // Sizes of a value from dimension `from` on, `count` of them.
  auto sizes = [](const Value& value, size_t from, size_t count) {
    asyra::Shape shape = value.shape();
    return asyra::Shape(shape.begin() + from, shape.begin() + from + count);
  };
  asyra::Shape of_left = sizes(x, batch, sides.left.size());
  asyra::Shape of_right =
      sizes(y, batch + sides.contracted.size(), sides.right.size());
  auto with = [](asyra::Shape shape, const asyra::Shape& rest) {
    shape.insert(shape.end(), rest.begin(), rest.end());
    return shape;
  };
  Value product;
  if (sides.contracted.empty()) {
    asyra::Shape ones(sides.right.size(), 1), left_ones(sides.left.size(), 1);
    ASYRA_ASSIGN_OR_RETURN(x, graph.Reshape(x, with(x.shape(), ones)));
    ASYRA_ASSIGN_OR_RETURN(
        y,
        graph.Reshape(y, with(with(sizes(y, 0, batch), left_ones), of_right)));
    ASYRA_ASSIGN_OR_RETURN(product, graph.Elementwise("mul", {x, y}));
  } else {
    int64_t k = NumElements(
        sizes(x, batch + sides.left.size(), sides.contracted.size()));
    ASYRA_ASSIGN_OR_RETURN(
        x,
        graph.Reshape(x, with(sizes(x, 0, batch), {NumElements(of_left), k})));
    ASYRA_ASSIGN_OR_RETURN(
        y,
        graph.Reshape(y, with(sizes(y, 0, batch), {k, NumElements(of_right)})));
    ASYRA_ASSIGN_OR_RETURN(product, graph.Add("matmul", {x, y}));
    ASYRA_ASSIGN_OR_RETURN(
        product,
        graph.Reshape(product,
                      with(with(sizes(product, 0, batch), of_left), of_right)));
  }
  return Term{std::move(product),
              Joined(sides.batch, Joined(sides.left, sides.right))};
}

}  // namespace

absl::Status Einsum(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Equation equation, ParseEquation(node));
  Term term{node.In(0), equation.inputs[0]};
  LabelSet output(equation.output.begin(), equation.output.end());
  for (int i = 1; i < node.num_inputs(); ++i) {
    LabelSet keep = output;
    for (int k = i + 1; k < node.num_inputs(); ++k) {
      keep.insert(equation.inputs[k].begin(), equation.inputs[k].end());
    }
    ASYRA_ASSIGN_OR_RETURN(
        term, Product(node, term, {node.In(i), equation.inputs[i]}, keep));
  }
  ASYRA_ASSIGN_OR_RETURN(term, SumOut(node, term, output));
  for (int label : equation.output) {
    if (term.Find(label) < 0) return Invalid("an output label has no input");
  }
  return node.Return(InOrder(node, term, equation.output));
}

}  // namespace asyra::onnx_import::ops
