// Ops that move elements.
#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;
using Shape = M::Shape;
constexpr int64_t kS = M::kSeq, kD = M::kWidth;

std::string Resized(M& m, const char* mode) {
  std::string resized = m.Op(
      "Resize", {m.Weight({1, 1, kS, kD / 2}), "", "", m.Ints({1, 1, kS, kD})},
      {{"mode", mode}});
  return m.Reshape(resized, {kS, kD});
}

std::string Split(M& m) {
  std::vector<std::string> parts = m.Ops(
      "Split", {m.Weight({kS, kD + 4}), m.Ints({kD, 4})}, 2, {{"axis", 1}});
  std::string rest =
      m.Op("ReduceSum", {parts[1], m.Ints({1})}, {{"keepdims", 1}});
  return m.Op("Add", {parts[0], rest});
}

std::string Concat(M& m) {
  return m.Op("Concat", {m.Weight({2, kD}), m.Weight({kS - 2, kD})},
              {{"axis", 0}});
}

// Learned tokens in front of the others.
std::string Tokens(M& m) {
  std::string tokens =
      m.Op("Expand", {m.Weight({1, 2, kD}), m.Ints({M::kBatch, 1, 1})});
  std::string joined = m.Op("Concat", {tokens, m.x()}, {{"axis", 1}});
  return m.Op("Slice", {joined, m.Ints({0}), m.Ints({kS}), m.Ints({1})});
}

void AddSpaces(std::vector<ReadSite>* sites) {
  sites->push_back({"DepthToSpace", [](M& m) {
                      std::string space =
                          m.Op("DepthToSpace", {m.Weight({1, 4, 3, 4})},
                               {{"blocksize", 2}});
                      return m.Reshape(space, {kS, kD});
                    }});
  sites->push_back({"SpaceToDepth", [](M& m) {
                      std::string depth =
                          m.Op("SpaceToDepth", {m.Weight({1, 1, 12, 16})},
                               {{"blocksize", 2}});
                      return m.Reshape(depth, {4, kS, kD});
                    }});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    sites->push_back({fmt::format("Resize {}", mode),
                      [mode](M& m) { return Resized(m, mode); }});
  }
  sites->push_back({"Trilu",
                    [](M& m) {
                      return m.Op("Trilu", {m.Weight({kS, kD})},
                                  {{"upper", m.choice().Half() ? 1 : 0}});
                    },
                    14});
  sites->push_back(
      {"Trilu of a matrix",
       [](M& m) {
         std::string low = m.Op("Trilu", {m.Weight({kS, kS})}, {{"upper", 0}});
         return m.Op("MatMul", {low, m.x()});
       },
       14});
}

}  // namespace

void AddLayoutSites(std::vector<ReadSite>* sites) {
  sites->push_back({"Concat", Concat});
  sites->push_back({"Concat of tokens", Tokens});
  sites->push_back(
      {"Expand", [](M& m) {
         return m.Op("Expand", {m.Weight({1, kD}), m.Ints({kS, kD})});
       }});
  sites->push_back(
      {"Flatten", [](M& m) {
         return m.Op("Flatten", {m.Weight({2, 3, kD})}, {{"axis", 2}});
       }});
  for (const char* mode : {"constant", "reflect", "edge"}) {
    sites->push_back(
        {fmt::format("Pad {}", mode), [mode](M& m) {
           return m.Op("Pad", {m.Weight({kS - 2, kD}), m.Ints({1, 0, 1, 0})},
                       {{"mode", mode}});
         }});
  }
  sites->push_back({"Reshape", [](M& m) {
                      return m.Reshape(m.Weight({kS * kD}), {kS, kD});
                    }});
  sites->push_back({"Slice", [](M& m) {
                      return m.Op("Slice",
                                  {m.Weight({kS + 2, 2 * kD}), m.Ints({1, 0}),
                                   m.Ints({kS + 1, 16}), m.Ints({0, 1}),
                                   m.Ints({1, 2})});
                    }});
  sites->push_back({"Split", Split});
  sites->push_back(
      {"Squeeze", [](M& m) {
         return m.Op("Squeeze", {m.Weight({1, kS, 1, kD}), m.Ints({0, 2})});
       }});
  sites->push_back({"Tile", [](M& m) {
                      return m.Op("Tile", {m.Weight({3, kD}), m.Ints({2, 1})});
                    }});
  sites->push_back({"Transpose", [](M& m) {
                      return m.Op("Transpose", {m.Weight({kD, kS})});
                    }});
  sites->push_back({"Unsqueeze", [](M& m) {
                      return m.Op("Unsqueeze", {m.Weight({kS}), m.Ints({1})});
                    }});
  AddSpaces(sites);
}

}  // namespace asyra
