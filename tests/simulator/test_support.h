// A machine of round numbers: an op of b bytes takes b / 1000 us, a collective
// 10 us and a thousandth of its bus bytes in us; issuing costs nothing.
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "simulator/simulate.h"

namespace asyra {

inline constexpr std::string_view kTestMachine = R"json({
  "schema": 1,
  "name": "test",
  "gpu": {
    "name": "Test", "sms": 100, "clock_mhz": 1000,
    "bf16_flops_per_sm_clock": 1000,
    "hbm_gib": 1, "hbm_gbps": {"peak": 1, "achievable": 1}, "hbm_sms": 50,
    "matrix_tflops": {"bf16": {"peak": 100, "achievable": 100},
                      "f32": {"peak": 100, "achievable": 100}},
    "vector_tflops": {"peak": 100, "achievable": 100},
    "kernel_us": 0, "gemm_half_tile": 0, "gemm_extra_k": 0,
    "gemm_hbm_gbps": 1, "op_rate": {}
  },
  "launch_us": 0,
  "host": {
    "gpus": 4, "link_gbps": {"peak": 10, "achievable": 10},
    "collectives": {
      "all_reduce": {"sms": 50, "beside_compute": 0.5, "fits": [
        {"ranks": 2, "protocols": [{"alpha_us": 10, "busbw_gbps": 1}]}]},
      "all_gather": {"sms": 50, "beside_compute": 0.5, "fits": [
        {"ranks": 2, "protocols": [{"alpha_us": 10, "busbw_gbps": 1}]}]},
      "reduce_scatter": {"sms": 50, "beside_compute": 0.5, "fits": [
        {"ranks": 2, "protocols": [{"alpha_us": 10, "busbw_gbps": 1}]}]},
      "all_to_all": {"sms": 50, "beside_compute": 0.5, "fits": [
        {"ranks": 2, "protocols": [{"alpha_us": 10, "busbw_gbps": 1}]}]}
    }
  },
  "network": {"gbps": {"peak": 0.5, "achievable": 0.5}, "alpha_us": 100},
  "sources": {"gpu": "made up", "host": "made up", "network": "made up"}
})json";

inline Machine TestMachine() {
  return *ParseMachine(kTestMachine, "test.machine");
}

// `text` with the first `from` replaced by `to`.
inline std::string Replaced(std::string text, std::string_view from,
                            std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline Program Parse(std::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : Program{};
}

}  // namespace asyra
