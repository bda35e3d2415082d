// Elementwise ops, alone and beside activations.
#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;

// One operand, with numbers where the op is smooth.
struct Unary {
  const char* op;
  double low, high;
  bool signs;
  int since = 13;
};
constexpr Unary kUnary[] = {
    {"Abs", 0.3, 0.9, true},         {"Acos", 0.1, 0.8, true},
    {"Acosh", 1.5, 2.5, false},      {"Asin", 0.1, 0.8, true},
    {"Asinh", 0.1, 2, true},         {"Atan", 0.1, 2, true},
    {"Atanh", 0.1, 0.8, true},       {"Ceil", 0.2, 0.8, true},
    {"Celu", 0.3, 0.9, true},        {"Cos", 0.3, 2, true},
    {"Cosh", 0.1, 1, true},          {"Dropout", 0.1, 1, true},
    {"Elu", 0.3, 0.9, true},         {"Erf", 0.1, 1, true},
    {"Exp", 0.1, 1, true},           {"Floor", 0.2, 0.8, true},
    {"Gelu", 0.1, 1, true, 20},      {"HardSigmoid", 0.1, 1, true},
    {"HardSwish", 0.1, 1, true, 14}, {"Identity", 0.1, 1, true},
    {"LeakyRelu", 0.3, 0.9, true},   {"Log", 0.4, 2, false},
    {"Mish", 0.1, 1, true, 18},      {"Neg", 0.1, 1, true},
    {"Reciprocal", 0.6, 1.5, true},  {"Relu", 0.3, 0.9, true},
    {"Round", 0.6, 0.9, true},       {"Selu", 0.3, 0.9, true},
    {"Sigmoid", 0.1, 1, true},       {"Sign", 0.3, 0.9, true},
    {"Sin", 0.1, 1, true},           {"Sinh", 0.1, 1, true},
    {"Softplus", 0.1, 1, true},      {"Softsign", 0.1, 1, true},
    {"Sqrt", 0.3, 1.5, false},       {"Swish", 0.1, 1, true, 24},
    {"Tan", 0.1, 1, true},           {"Tanh", 0.1, 1, true},
};

struct Activation {
  const char* op;
  bool bias;
};
constexpr Activation kContrib[] = {{"Gelu", false},
                                   {"QuickGelu", false},
                                   {"FastGelu", false},
                                   {"FastGelu", true},
                                   {"BiasGelu", true}};

// Beside activations, at the first or the second operand.
std::string Either(M& m, const std::string& op, const std::string& param,
                   const std::string& x) {
  return m.choice().Half() ? m.Op(op, {param, x}) : m.Op(op, {x, param});
}

std::string Clip(M& m) {
  // Numbers in three parts, of which the outer ones are clipped.
  std::vector<double> values;
  for (int i = 0; i < M::kWidth; ++i) {
    values.push_back(m.choice().Pick({-0.7, 0.3, 0.9}) +
                     m.choice().Uniform(-0.1, 0.1));
  }
  return m.Op("Clip", {m.Stored({M::kWidth}, values), m.Uniform({}, -0.3, -0.2),
                       m.Uniform({}, 0.5, 0.6)});
}

void AddBinary(std::vector<ReadSite>* sites) {
  for (const char* op : {"Add", "Sub", "Mul"}) {
    sites->push_back(
        {fmt::format("{} of two", op), [op](M& m) {
           return m.Op(op, {m.Weight(m.AnyShape()), m.Weight(m.AnyShape())});
         }});
    for (bool first : {false, true}) {
      sites->push_back(
          {fmt::format("{} with activations {}", op, first), [op, first](M& m) {
             std::string w = m.Weight(m.AnyShape());
             return first ? m.Op(op, {w, m.x()}) : m.Op(op, {m.x(), w});
           }});
    }
  }
  sites->push_back({"Div by activations", [](M& m) {
                      return m.Op("Div", {m.Weight(m.AnyShape()), m.FarX()});
                    }});
  sites->push_back({"Div by a parameter", [](M& m) {
                      std::string w = m.Uniform(m.AnyShape(), 0.7, 1.5, true);
                      return m.Op("Div", {m.x(), w});
                    }});
  sites->push_back({"Pow of a parameter", [](M& m) {
                      std::string w = m.Uniform(m.AnyShape(), 0.5, 1.5);
                      return m.Op("Pow", {w, m.x()});
                    }});
  sites->push_back({"Pow by a parameter", [](M& m) {
                      std::string w = m.Uniform(m.AnyShape(), 0.5, 2);
                      return m.Op("Pow", {m.Op("Exp", {m.x()}), w});
                    }});
  for (const char* op : {"Max", "Min"}) {
    sites->push_back(
        {fmt::format("{} with activations", op), [op](M& m) {
           std::string w = m.Uniform({M::kSeq, M::kWidth}, 1.2, 2, true);
           return Either(m, op, w, m.x());
         }});
    sites->push_back(
        {fmt::format("{} of three", op), [op](M& m) {
           std::string w = m.Uniform({M::kSeq, M::kWidth}, 0.3, 0.5, true);
           return m.Op(op, {w, m.Uniform({M::kWidth}, 0.7, 1.2, true),
                            m.Uniform({}, 0.05, 0.1, true)});
         }});
  }
  for (const char* op : {"Sum", "Mean"}) {
    sites->push_back({fmt::format("{} of three", op), [op](M& m) {
                        return m.Op(op, {m.Weight(m.AnyShape()), m.x(),
                                         m.Weight(m.AnyShape())});
                      }});
  }
}

void AddOthers(std::vector<ReadSite>* sites) {
  sites->push_back(
      {"Cast", [](M& m) {
         return m.Op("Cast", {m.Weight(m.AnyShape())}, {{"to", int{M::kF64}}});
       }});
  sites->push_back({"CastLike",
                    [](M& m) {
                      return m.Op("CastLike", {m.Weight(m.AnyShape()), m.x()});
                    },
                    15});
  sites->push_back({"Clip", Clip});
  sites->push_back(
      {"Greater and Less", [](M& m) {
         // No derivative flows through a comparison.
         std::string more =
             m.Op("Greater", {m.Weight({M::kWidth}), m.Op("Neg", {"far"})});
         std::string less = m.Op("Less", {"far", m.Weight({M::kWidth})});
         return m.Op("Where", {m.Op("Xor", {more, less}), m.x(), m.FarX()});
       }});
  sites->push_back({"Mod", [](M& m) {
                      // The quotient is between 2 and 3.
                      std::string w = m.Uniform({M::kWidth}, 1.2, 1.35);
                      return m.Op("Mod",
                                  {w, m.Uniform({M::kSeq, 1}, 0.5, 0.55)},
                                  {{"fmod", 1}});
                    }});
  sites->push_back(
      {"PRelu of a parameter", [](M& m) {
         return m.Op("PRelu", {m.Uniform({M::kSeq, M::kWidth}, 0.3, 0.9, true),
                               m.Weight({M::kWidth})});
       }});
  sites->push_back({"PRelu of activations", [](M& m) {
                      return m.Op("PRelu", {m.FarX(), m.Weight(m.AnyShape())});
                    }});
  sites->push_back({"ThresholdedRelu", [](M& m) {
                      std::string w = m.Uniform({M::kWidth}, 0.3, 0.9, true);
                      return m.Op("ThresholdedRelu", {w}, {{"alpha", 0.125f}});
                    }});
  sites->push_back({"Where", [](M& m) {
                      return m.Op("Where",
                                  {m.Condition(), m.Weight(m.AnyShape()),
                                   m.Weight(m.AnyShape())});
                    }});
  sites->push_back({"Where beside activations", [](M& m) {
                      std::string w = m.Weight(m.AnyShape());
                      return m.choice().Half()
                                 ? m.Op("Where", {m.Condition(), w, m.x()})
                                 : m.Op("Where", {m.Condition(), m.x(), w});
                    }});
}

}  // namespace

void AddElementwiseSites(std::vector<ReadSite>* sites) {
  for (const Unary& unary : kUnary) {
    sites->push_back({unary.op,
                      [unary](M& m) {
                        return m.Op(unary.op,
                                    {m.Uniform(m.AnyShape(), unary.low,
                                               unary.high, unary.signs)});
                      },
                      unary.since});
  }
  for (const Activation& one : kContrib) {
    sites->push_back(
        {fmt::format("{} of com.microsoft", one.op), [one](M& m) {
           std::vector<std::string> inputs = {m.Weight({M::kSeq, M::kWidth})};
           if (one.bias) inputs.push_back(m.Weight({M::kWidth}));
           return m.Contrib(one.op, inputs);
         }});
  }
  AddBinary(sites);
  AddOthers(sites);
}

}  // namespace asyra
