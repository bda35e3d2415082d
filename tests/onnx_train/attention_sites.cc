// Attention and the rotation of its queries and keys.
#include <cmath>

#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;
constexpr int64_t kB = M::kBatch, kS = M::kSeq, kD = M::kWidth;
constexpr int64_t kHeads = 2, kSize = kD / kHeads, kPast = 3;

// Queries, keys and values, one of which is a parameter.
std::vector<std::string> OneLearned(M& m) {
  std::vector<std::string> qkv(3, m.x());
  qkv[m.choice().Below(3)] = m.Weight({kB, kS, kD});
  return qkv;
}

std::string Prefix(M& m) { return m.Weight({kB, kHeads, kPast, kSize}); }

// Of opset 23: with a learned score bias, or prefixes, or both.
std::string Attention(M& m) {
  std::vector<std::string> inputs = OneLearned(m);
  bool past = m.choice().Half(), bias = !past || m.choice().Half();
  int64_t keys = past ? kS + kPast : kS;
  inputs.push_back(bias ? m.Weight({kHeads, kS, keys}) : "");
  if (past) {
    inputs.push_back(Prefix(m));
    inputs.push_back(Prefix(m));
  }
  return m.Op("Attention", inputs,
              {{"q_num_heads", int{kHeads}},
               {"kv_num_heads", int{kHeads}},
               {"is_causal", m.choice().Half() ? 1 : 0}});
}

std::string MultiHead(M& m) {
  std::vector<std::string> inputs = OneLearned(m);
  bool past = m.choice().Half();
  inputs.push_back(m.Weight({3 * kD}));
  inputs.push_back("");
  inputs.push_back(m.Weight({1, kHeads, kS, past ? kS + kPast : kS}));
  if (past) {
    inputs.push_back(Prefix(m));
    inputs.push_back(Prefix(m));
  }
  return m.Contrib("MultiHeadAttention", inputs, {{"num_heads", int{kHeads}}});
}

std::string Packed(M& m) {
  std::string x = m.choice().Half() ? m.x() : m.Weight({kB, kS, kD});
  bool past = m.choice().Half();
  return m.Contrib("Attention",
                   {x, m.Weight({kD, 3 * kD}), m.Weight({3 * kD}), "",
                    past ? m.Weight({2, kB, kHeads, kPast, kSize}) : "",
                    m.Weight({1, kHeads, kS, past ? kS + kPast : kS})},
                   {{"num_heads", int{kHeads}}});
}

// cos or sin of positions times frequencies, [seq, size / 2].
std::string Table(M& m, double (*of)(double)) {
  std::vector<double> values;
  for (int64_t s = 0; s < kS; ++s) {
    for (int64_t i = 0; i < kSize / 2; ++i) {
      double frequency = std::pow(100.0, -2.0 * static_cast<double>(i) / kSize);
      values.push_back(of(static_cast<double>(s) * frequency));
    }
  }
  return m.Stored({kS, kSize / 2}, std::move(values), /*trained=*/false);
}

std::string GroupQuery(M& m) {
  std::vector<std::string> inputs = OneLearned(m);
  inputs.insert(inputs.end(),
                {"", "", m.Int32s(m.Ints({kS - 1, kS - 1, kS - 1, kS - 1})),
                 m.Int32s(m.Ints({kS}, {}))});
  bool rotary = m.choice().Half();
  M::Attrs attrs = {{"num_heads", int{kHeads}}, {"kv_num_heads", int{kHeads}}};
  if (rotary) {
    inputs.push_back(Table(m, std::cos));
    inputs.push_back(Table(m, std::sin));
    attrs.push_back({"do_rotary", 1});
  }
  return m.Contrib("GroupQueryAttention", inputs, attrs);
}

std::string Rotated(M& m) {
  std::string cos = Table(m, std::cos), sin = Table(m, std::sin);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < kB * kS; ++i) positions.push_back(i % kS);
  return m.Op(
      "RotaryEmbedding",
      {m.Weight({kB, kS, kD}), cos, sin, m.Ints(positions, {kB, kS})},
      {{"num_heads", int{kHeads}}, {"interleaved", m.choice().Half() ? 1 : 0}});
}

std::string ContribRotated(M& m) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < kB * kS; ++i) positions.push_back(i % kS);
  std::string x = m.Weight({kB, kS, kD});
  return m.Contrib(
      "RotaryEmbedding",
      {x, m.Ints(positions, {kB, kS}), Table(m, std::cos), Table(m, std::sin)},
      {{"num_heads", int{kHeads}}});
}

// Attention by ops whose softmax has a learned column beside the scores.
std::string Sinks(M& m) {
  std::string turned =
      m.Op("Transpose", {m.x()}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  std::string scores = m.Op("MatMul", {m.x(), turned});
  std::string sinks =
      m.Op("Expand", {m.Weight({1, 1, 1}), m.Ints({kB, kS, 1})});
  std::string all = m.Op("Concat", {scores, sinks}, {{"axis", 2}});
  std::string weights = m.Op("Slice", {m.Op("Softmax", {all}, {{"axis", -1}}),
                                       m.Ints({0}), m.Ints({kS}), m.Ints({2})});
  return m.Op("MatMul", {weights, m.x()});
}

}  // namespace

void AddAttentionSites(std::vector<ReadSite>* sites) {
  sites->push_back({"Attention", Attention, 23});
  sites->push_back({"MultiHeadAttention", MultiHead});
  sites->push_back({"Attention of com.microsoft", Packed});
  sites->push_back({"GroupQueryAttention", GroupQuery});
  sites->push_back({"RotaryEmbedding", Rotated, 23});
  sites->push_back({"RotaryEmbedding of com.microsoft", ContribRotated});
  sites->push_back({"Softmax with sinks", Sinks});
}

}  // namespace asyra
