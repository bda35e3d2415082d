// A machine of round numbers: an op of b bytes takes b / 1000 us, a collective
// 10 us and a thousandth of its bus bytes in us; issuing costs nothing.
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/cost_table.h"
#include "simulator/replay/simulate.h"
#include "tests/support/parse.h"

namespace asyra {

inline constexpr std::string_view kTestMachine = R"json({
  "schema": 4,
  "name": "test",
  "gpu": {
    "name": "Test", "sms": 100, "clock_mhz": 1000,
    "bf16_flops_per_sm_clock": 1000,
    "hbm_gib": 1, "hbm_gbps": {"peak": 1, "achievable": 1}, "hbm_sms": 1,
    "matrix_tflops": {"bf16": {"peak": 100, "achievable": 100},
                      "f32": {"peak": 100, "achievable": 100}},
    "vector_tflops": {"peak": 100, "achievable": 100},
    "kernel_us": 0, "gemm_half_tile": 0, "gemm_extra_k": 0,
    "gemm_hbm_fraction": 1,
    "library_mib": {"context": 0, "op": 0, "collectives": 0, "exchanges": 0,
                    "communicator": 0, "rings": 0, "trees": 0, "peer": 0,
                    "workspace": 0}
  },
  "launch_us": 0,
  "graph_launch_us": 0,
  "host": {
    "gpus": 4, "link": "nvlink", "link_gbps": {"peak": 10, "achievable": 1},
    "p2p": true, "ll_gbps": 100, "cta_gbps": 10,
    "protocols": [{"name": "plain", "base_us": 10, "hop_us": 0,
                   "network_hop_us": 0, "fraction": 1}],
    "collectives": {
      "all_reduce": {"ctas": 50, "beside_compute": 0.5},
      "all_gather": {"ctas": 50, "beside_compute": 0.5},
      "reduce_scatter": {"ctas": 50, "beside_compute": 0.5},
      "all_to_all": {"ctas": 50, "beside_compute": 0.5}
    },
    "copy_engines": 2, "copy_gbps": {"peak": 10, "achievable": 5}
  },
  "network": {
    "nics": 4, "gbps": {"peak": 0.5, "achievable": 0.5}, "alpha_us": 100
  },
  "sources": {"gpu": "made up", "host": "made up", "network": "made up"}
})json";

inline Machine TestMachine() {
  return *ParseMachine(kTestMachine, "test.machine");
}

// A power of round numbers, for it or others.
inline GpuPower RoundPower() {
  return {.cap_w = 500,
          .idle_w = 100,
          .most_mhz = 2000,
          .measured_mhz = 1000,
          .clock_share = 0.8,
          .exponent = 1,
          .pj_matrix = {{"bf16", 2}, {"f32", 8}},
          .pj_vector = 4,
          .pj_hbm = 50,
          .pj_link = 300};
}

// The cost of the call that was measured, whatever it took.
// At the clock of the point.
inline OpCost CostOf(const Measurement& point, const Machine& machine,
                     const CostOptions& options = {}) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"x", point.ranks}}));
  ParsedCall call = ASYRA_VALUE(ParseCall(point.call, mesh));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  return CostModel(machine, mesh, options)
      .AtClock(point.mhz)
      .Cost({*call.def, call.attrs, call.operands, results});
}

// `text` with the first `from` replaced by `to`.
inline std::string Replaced(std::string text, std::string_view from,
                            std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace asyra
