// Tables, and what is written into tensors at places.
#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;
constexpr int64_t kS = M::kSeq, kD = M::kWidth;

std::vector<int64_t> Places(M& m, int64_t count, int64_t below) {
  std::vector<int64_t> places(count);
  for (int64_t& place : places) {
    place = static_cast<int64_t>(m.choice().Below(below));
  }
  return places;
}

void AddScatters(std::vector<ReadSite>* sites) {
  sites->push_back({"ScatterElements", [](M& m) {
                      std::vector<int64_t> rows;  // each once in a column
                      for (int64_t i = 0; i < 2 * kD; ++i) {
                        rows.push_back(i < kD ? i % 3 : 3 + i % 3);
                      }
                      return m.Op("ScatterElements",
                                  {m.Weight({kS, kD}), m.Ints(rows, {2, kD}),
                                   m.Weight({2, kD})});
                    }});
  sites->push_back({"ScatterND", [](M& m) {
                      return m.Op("ScatterND",
                                  {m.Weight({kS, kD}), m.Ints({1, 4}, {2, 1}),
                                   m.Weight({2, kD})});
                    }});
  sites->push_back(
      {"ScatterND into activations", [](M& m) {
         return m.Op("ScatterND",
                     {m.x(), m.Ints({0, 1, 2, 3}, {2, 2}), m.Weight({2, kD})});
       }});
  sites->push_back({"TensorScatter",
                    [](M& m) {
                      return m.Op("TensorScatter",
                                  {m.Weight({4, kS, kD}), m.Weight({4, 2, kD}),
                                   m.Ints({0, 1, 2, 3})});
                    },
                    24});
}

}  // namespace

void AddLookupSites(std::vector<ReadSite>* sites) {
  sites->push_back({"Gather of rows", [](M& m) {
                      return m.Op("Gather", {m.Weight({M::kRows, kD}), "ids"});
                    }});
  sites->push_back(
      {"Gather of columns", [](M& m) {
         return m.Op("Gather", {m.Weight({kS, 12}), m.Ints(Places(m, kD, 12))},
                     {{"axis", 1}});
       }});
  sites->push_back(
      {"Gather of numbers", [](M& m) {
         std::string one = m.Op("Gather", {m.Weight({M::kRows}), "ids"});
         return m.Op("Unsqueeze", {one, m.Ints({2})});
       }});
  sites->push_back(
      {"Gather of a bias table", [](M& m) {
         // Relative positions of [seq, seq], added to scores.
         std::vector<int64_t> places;
         for (int64_t i = 0; i < kS * kS; ++i) {
           places.push_back(i / kS - i % kS + kS - 1);
         }
         std::string bias =
             m.Op("Gather", {m.Weight({2 * kS - 1}), m.Ints(places, {kS, kS})});
         std::string scores = m.Op("Softmax", {bias});
         return m.Op("MatMul", {scores, m.x()});
       }});
  sites->push_back({"GatherElements", [](M& m) {
                      return m.Op("GatherElements",
                                  {m.Weight({kS, kD}),
                                   m.Ints(Places(m, kS * kD, kS), {kS, kD})});
                    }});
  sites->push_back({"GatherND", [](M& m) {
                      return m.Op("GatherND",
                                  {m.Weight({M::kRows, kD}),
                                   m.Op("Unsqueeze", {"ids", m.Ints({2})})});
                    }});
  sites->push_back(
      {"OneHot", [](M& m) {
         return m.Op("OneHot", {"ids", m.Ints({kD}, {}), m.Weight({2})});
       }});
  AddScatters(sites);
}

}  // namespace asyra
