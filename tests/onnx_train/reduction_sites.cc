// Reductions, and what chooses or adds up along a dimension.
#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;

// Axes are an attribute before opset 18.
std::string Reduce(M& m, const std::string& op, const std::string& value) {
  int64_t axis = m.choice().Pick({-1, 2});
  if (m.opset() < 18 && op != "ReduceSum") {
    return m.Op(op, {value},
                {{"axes", std::vector<int64_t>{axis}}, {"keepdims", 0}});
  }
  return m.Op(op, {value, m.Ints({axis})}, {{"keepdims", 0}});
}

// [seq, width, 3], to be reduced to [seq, width].
std::string ReducedParam(M& m, const std::string& op) {
  RandomOnnxModel::Shape shape = {M::kSeq, M::kWidth, 3};
  if (op == "ReduceMax" || op == "ReduceMin") return m.Distinct(shape);
  bool signs = op != "ReduceLogSum";
  return m.Uniform(shape, 0.3, 0.9, signs);
}

std::string Largest(M& m) {
  std::vector<std::string> top =
      m.Ops("TopK", {m.Distinct({M::kSeq, 12}), m.Ints({M::kWidth})}, 2,
            {{"axis", 1}, {"largest", m.choice().Half() ? 1 : 0}});
  return top[0];
}

}  // namespace

void AddReductionSites(std::vector<ReadSite>* sites) {
  for (const char* op :
       {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
        "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
        "ReduceSumSquare"}) {
    sites->push_back(
        {op, [op](M& m) { return Reduce(m, op, ReducedParam(m, op)); }});
    sites->push_back({fmt::format("{} of all", op), [op](M& m) {
                        std::string w = op == std::string("ReduceProd")
                                            ? m.Uniform({6}, 0.7, 1.2, true)
                                            : ReducedParam(m, op);
                        std::string all = m.Op(op, {w}, {{"keepdims", 0}});
                        return m.Op("Tanh", {all});
                      }});
  }
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    sites->push_back({op, [op](M& m) {
                        return m.Op(op, {m.Weight({M::kSeq, M::kWidth})},
                                    {{"axis", m.choice().Half() ? 0 : -1}});
                      }});
  }
  sites->push_back({"CumSum", [](M& m) {
                      return m.Op(
                          "CumSum",
                          {m.Uniform({M::kSeq, M::kWidth}, 0.1, 0.3, true),
                           m.Ints({m.choice().Pick({0, 1})}, {})},
                          {{"exclusive", m.choice().Half() ? 1 : 0},
                           {"reverse", m.choice().Half() ? 1 : 0}});
                    }});
  sites->push_back({"TopK", Largest});
  sites->push_back({"MaxPool", [](M& m) {
                      return m.Op("MaxPool", {m.Distinct({1, M::kSeq, 8})},
                                  {{"kernel_shape", std::vector<int64_t>{3}},
                                   {"pads", std::vector<int64_t>{1, 1}}});
                    }});
  sites->push_back({"AveragePool", [](M& m) {
                      return m.Op("AveragePool", {m.Weight({1, M::kSeq, 8})},
                                  {{"kernel_shape", std::vector<int64_t>{3}},
                                   {"pads", std::vector<int64_t>{1, 1}}});
                    }});
  sites->push_back(
      {"GlobalAveragePool", [](M& m) {
         return m.Op("GlobalAveragePool", {m.Weight({1, M::kSeq, 8})});
       }});
}

}  // namespace asyra
