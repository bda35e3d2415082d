// Products, convolutions, norms, losses and experts.
#include "tests/onnx_train/read_sites.h"

namespace asyra {
namespace {

using M = RandomOnnxModel;
using Ints64 = std::vector<int64_t>;
constexpr int64_t kB = M::kBatch, kS = M::kSeq, kD = M::kWidth;

std::string Gemm(M& m, const std::string& domain, const std::string& rows) {
  M::Attrs attrs = {{"alpha", 0.5f}, {"beta", m.choice().Pick({1.0f, 2.0f})}};
  if (!domain.empty()) attrs.push_back({"activation", "Tanh"});
  return m.Op(domain.empty() ? "Gemm" : "FusedGemm",
              {rows, m.Weight({kD, kD}), m.Weight({kD})}, attrs, domain);
}

void AddProducts(std::vector<ReadSite>* sites) {
  for (const char* domain : {"", M::kMicrosoft}) {
    std::string name = *domain == 0 ? "Gemm" : "FusedGemm";
    sites->push_back({name, [domain](M& m) {
                        return Gemm(m, domain, m.Weight({kS, kD}));
                      }});
    sites->push_back({name + " of activations", [domain](M& m) {
                        std::string rows = m.Reshape(m.x(), {kB * kS, kD});
                        return m.Reshape(Gemm(m, domain, rows), {kB, kS, kD});
                      }});
    std::string matmul = *domain == 0 ? "MatMul" : "FusedMatMul";
    sites->push_back({matmul, [matmul, domain](M& m) {
                        return m.Op(matmul,
                                    {m.Weight({kS, 4}), m.Weight({4, kD})}, {},
                                    domain);
                      }});
    sites->push_back(
        {matmul + " from the left", [matmul, domain](M& m) {
           return m.Op(matmul, {m.Weight({kS, kS}), m.x()}, {}, domain);
         }});
    sites->push_back(
        {matmul + " from the right", [matmul, domain](M& m) {
           return m.Op(matmul, {m.x(), m.Weight({kD, kD})}, {}, domain);
         }});
  }
  sites->push_back({"Einsum", [](M& m) {
                      return m.Op("Einsum",
                                  {m.Weight({kS, 4}), m.Weight({kD, 4})},
                                  {{"equation", "sr,dr->sd"}});
                    }});
  sites->push_back({"Einsum with activations", [](M& m) {
                      std::string heads =
                          m.Op("Einsum", {m.x(), m.Weight({2, kD, 4})},
                               {{"equation", "bsd,hde->bshe"}});
                      return m.Reshape(heads, {kB, kS, kD});
                    }});
}

void AddConvs(std::vector<ReadSite>* sites) {
  for (const char* op : {"Conv", "ConvTranspose"}) {
    M::Attrs attrs = {{"pads", Ints64{1, 1}}};
    sites->push_back({op, [op, attrs](M& m) {
                        return m.Op(op,
                                    {m.Weight({1, kS, kD}),
                                     m.Weight({kS, kS, 3}), m.Weight({kS})},
                                    attrs);
                      }});
    sites->push_back({fmt::format("{} of activations", op), [op, attrs](M& m) {
                        return m.Op(
                            op, {m.x(), m.Weight({kS, kS, 3}), m.Weight({kS})},
                            attrs);
                      }});
  }
}

// The chain's value, or a parameter of its shape without the batch.
std::string AnyInput(M& m) {
  return m.choice().Half() ? m.x() : m.Weight({1, kS, kD});
}

void AddChannelNorms(std::vector<ReadSite>* sites) {
  sites->push_back({"BatchNormalization", [](M& m) {
                      std::vector<double> mean, variance;
                      for (int64_t i = 0; i < kS; ++i) {
                        mean.push_back(m.choice().Uniform(-0.5, 0.5));
                        variance.push_back(m.choice().Uniform(0.5, 1.5));
                      }
                      std::string x = AnyInput(m), scale = m.Weight({kS});
                      return m.Op("BatchNormalization",
                                  {x, scale, m.Weight({kS}),
                                   m.Stored({kS}, mean, false),
                                   m.Stored({kS}, variance, false)});
                    }});
  sites->push_back({"InstanceNormalization", [](M& m) {
                      return m.Op(
                          "InstanceNormalization",
                          {AnyInput(m), m.Weight({kS}), m.Weight({kS})});
                    }});
  sites->push_back({"GroupNormalization",
                    [](M& m) {
                      int64_t size = m.opset() < 21 ? 2 : kS;
                      return m.Op(
                          "GroupNormalization",
                          {AnyInput(m), m.Weight({size}), m.Weight({size})},
                          {{"num_groups", 2}});
                    },
                    18});
}

void AddNorms(std::vector<ReadSite>* sites) {
  sites->push_back({"LayerNormalization",
                    [](M& m) {
                      return m.Op(
                          "LayerNormalization",
                          {AnyInput(m), m.Weight({kD}), m.Weight({kD})});
                    },
                    17});
  sites->push_back(
      {"RMSNormalization",
       [](M& m) {
         return m.Op("RMSNormalization", {AnyInput(m), m.Weight({kD})});
       },
       23});
  for (const char* domain : {"", M::kMicrosoft}) {
    sites->push_back({"SimplifiedLayerNormalization", [domain](M& m) {
                        return m.Op("SimplifiedLayerNormalization",
                                    {AnyInput(m), m.Weight({kD})}, {}, domain);
                      }});
  }
  sites->push_back(
      {"SkipLayerNormalization", [](M& m) {
         std::string skip = m.Weight({kB, kS, kD});
         std::string x = m.choice().Half() ? m.x() : m.Weight({kB, kS, kD});
         return m.Contrib(
             "SkipLayerNormalization",
             {x, skip, m.Weight({kD}), m.Weight({kD}), m.Weight({kD})});
       }});
  sites->push_back(
      {"SkipSimplifiedLayerNormalization", [](M& m) {
         std::string skip = m.Weight({kB, kS, kD});
         std::string x = m.choice().Half() ? m.x() : m.Weight({kB, kS, kD});
         return m.Contrib("SkipSimplifiedLayerNormalization",
                          {x, skip, m.Weight({kD}), m.Weight({kD})});
       }});
  sites->push_back({"EmbedLayerNormalization", [](M& m) {
                      std::string ids = m.Int32s("ids");
                      std::string half = m.Op("Div", {"ids", m.Ints({4}, {})});
                      return m.Contrib(
                          "EmbedLayerNormalization",
                          {ids, m.Int32s(half), m.Weight({M::kRows, kD}),
                           m.Weight({kS, kD}), m.Weight({2, kD}),
                           m.Weight({kD}), m.Weight({kD})},
                          {{"epsilon", 1e-3f}});
                    }});
}

// Every expert is chosen, so that the routing does not jump.
std::string Experts(M& m) {
  std::string x = m.Reshape(m.choice().Half() ? m.x() : m.Weight({kB, kS, kD}),
                            {kB * kS, kD});
  std::string logits = m.choice().Half()
                           ? m.Weight({kB * kS, 2})
                           : m.Op("MatMul", {x, m.Weight({kD, 2})});
  std::string y =
      m.Contrib("MoE",
                {x, logits, m.Weight({2, 16, kD}), m.Weight({2, 16}),
                 m.Weight({2, kD, 16}), m.Weight({2, kD}),
                 m.Weight({2, 16, kD}), m.Weight({2, 16})},
                {{"k", 2}, {"activation_type", "silu"}});
  return m.Op("Tanh", {m.Reshape(y, {kB, kS, kD})});
}

}  // namespace

void AddLayerSites(std::vector<ReadSite>* sites) {
  AddProducts(sites);
  AddConvs(sites);
  AddChannelNorms(sites);
  AddNorms(sites);
  sites->push_back({"MoE", Experts});
  sites->push_back({"SoftmaxCrossEntropyLoss", [](M& m) {
                      std::string logits = m.Weight({kB * kS, M::kRows});
                      return m.Op("SoftmaxCrossEntropyLoss",
                                  {logits, m.Reshape("ids", {kB * kS})},
                                  {{"reduction", "mean"}});
                    }});
  sites->push_back({"SoftmaxCrossEntropyLoss with classes", [](M& m) {
                      std::string logits = m.Weight({kB * kS, M::kRows});
                      // By the rule of constants they are no parameter.
                      std::vector<double> classes(M::kRows);
                      for (double& one : classes) {
                        one = m.choice().Uniform(0.2, 0.9);
                      }
                      return m.Op("SoftmaxCrossEntropyLoss",
                                  {logits, m.Reshape("ids", {kB * kS}),
                                   m.Stored({M::kRows}, classes, false)},
                                  {{"reduction", "sum"}, {"ignore_index", 1}});
                    }});
  sites->push_back({"NegativeLogLikelihoodLoss", [](M& m) {
                      std::string logits = m.Weight({kB * kS, M::kRows});
                      return m.Op("NegativeLogLikelihoodLoss",
                                  {logits, m.Reshape("ids", {kB * kS})},
                                  {{"reduction", "mean"}, {"ignore_index", 1}});
                    }});
}

}  // namespace asyra
