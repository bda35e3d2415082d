// Subgraphs and sequences.
#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;
constexpr int64_t kS = M::kSeq, kD = M::kWidth;

// The chosen branch reads a parameter of the graph around it.
std::string Branch(M& m) {
  std::string w = m.Weight({kS, kD});
  ModelBuilder yes, no;
  yes.Node("Sin", {w}, {w + "_yes"}).Output(w + "_yes");
  no.Node("Cos", {w}, {w + "_no"}).Output(w + "_no");
  std::string condition =
      m.Op("Cast", {m.Ints({m.choice().Half() ? 1 : 0}, {})},
           {{"to", int{onnx::TensorProto::BOOL}}});
  return m.Op("If", {condition},
              {{"then_branch", yes.graph()}, {"else_branch", no.graph()}});
}

// Two rounds of state -> sin(state * w).
std::string Rounds(M& m) {
  std::string w = m.Weight({kD}), state = m.Weight({kS, kD});
  std::string at = w + "_";
  ModelBuilder body;
  body.Input(at + "i", kI64, {})
      .Input(at + "go", kBool, {})
      .Input(at + "state", M::kF64, {int{kS}, int{kD}})
      .Node("Identity", {at + "go"}, {at + "on"})
      .Node("Mul", {at + "state", w}, {at + "scaled"})
      .Node("Sin", {at + "scaled"}, {at + "next"})
      .Output(at + "on", kBool, {})
      .Output(at + "next", M::kF64, {int{kS}, int{kD}});
  std::string on =
      m.Op("Cast", {m.Ints({1}, {})}, {{"to", int{onnx::TensorProto::BOOL}}});
  return m.Op("Loop", {m.Ints({2}, {}), on, state}, {{"body", body.graph()}});
}

// A recurrence over learned rows: state -> tanh(state + row).
std::string Recurrence(M& m) {
  std::string state = m.Weight({kD}), rows = m.Weight({kS, kD});
  std::string at = state + "_";
  ModelBuilder body;
  body.Input(at + "state", M::kF64, {int{kD}})
      .Input(at + "row", M::kF64, {int{kD}})
      .Node("Add", {at + "state", at + "row"}, {at + "sum"})
      .Node("Tanh", {at + "sum"}, {at + "next"})
      .Node("Identity", {at + "next"}, {at + "out"})
      .Output(at + "next", M::kF64, {int{kD}})
      .Output(at + "out", M::kF64, {int{kD}});
  return m.Ops("Scan", {state, rows}, 2,
               {{"body", body.graph()}, {"num_scan_inputs", 1}})[1];
}

std::string Sequence(M& m) {
  std::string sequence =
      m.Op("SequenceConstruct", {m.Weight({2, kD}), m.Weight({3, kD})});
  sequence = m.Op("SequenceInsert",
                  {sequence, m.Weight({kS - 2, kD}), m.Ints({1}, {})});
  sequence = m.Op("SequenceErase", {sequence, m.Ints({2}, {})});
  return m.Op("ConcatFromSequence", {sequence}, {{"axis", 0}});
}

std::string OfSequence(M& m) {
  std::string parts =
      m.Op("SplitToSequence", {m.Weight({kS, 2 * kD}), m.Ints({kD, kD})},
           {{"axis", 1}});
  std::string first = m.Op("SequenceAt", {parts, m.Ints({0}, {})});
  return m.Op("Add", {first, m.Op("SequenceAt", {parts, m.Ints({1}, {})})});
}

}  // namespace

void AddControlSites(std::vector<ReadSite>* sites) {
  sites->push_back({"If", Branch});
  sites->push_back({"Loop", Rounds});
  sites->push_back({"Scan", Recurrence});
  sites->push_back({"ConcatFromSequence", Sequence});
  sites->push_back({"SequenceAt", OfSequence});
}

}  // namespace asyra
