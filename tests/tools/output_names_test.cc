// Outputs keep the model's names on every mesh, whatever is done to them.
#include <unistd.h>

#include <filesystem>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "tools/compile.h"

namespace asyra {
namespace {

std::vector<std::string> NamesOf(const Program& program) {
  std::vector<std::string> names;
  for (const Output& output : program.outputs) {
    names.push_back(program.output_name(output));
  }
  return names;
}

// Compiles the model over each mesh, in tiles and without; returns how many
// outputs are values of another name.
int CountRenamed(CompileFlags options, const std::vector<std::string>& meshes) {
  options.search_steps = 20;
  std::vector<std::string> names =
      NamesOf(ASYRA_VALUE(LoadModel(options)).program);
  int renamed = 0;
  for (const std::string& mesh : meshes) {
    for (int tiles : {0, 2}) {
      options.mesh = mesh;
      options.tiles = tiles;
      Program program = ASYRA_VALUE(Compile(options)).program;
      EXPECT_EQ(NamesOf(program), names) << mesh;
      EXPECT_EQ(NamesOf(ASYRA_VALUE(ParseProgram(ToString(program)))), names)
          << mesh;
      for (const Output& output : program.outputs) {
        renamed += !output.name.empty();
      }
    }
  }
  return renamed;
}

// Its first output is summed over tp, the second is a state.
constexpr char kMlp[] = R"(asyra 1 global
program @mlp(%x: f32[4, 8, 64], %up: f32[64, 256] weight,
    %down: f32[256, 64] weight, %sum: f32[4, 8, 64] state)
    -> (f32[4, 8, 64], f32[4, 8, 64]) {
  %h = matmul(%x, %up) : f32[4, 8, 256]
  %a = relu(%h) : f32[4, 8, 256]
  %y = matmul(%a, %down) : f32[4, 8, 64]
  %next = add(%sum, %y) : f32[4, 8, 64]
  return %y, %next as "total" alias %sum
}
)";

TEST(OutputNames, AreThoseOfTheModelWhereTheirValuesAreNot) {
  std::string path = (std::filesystem::path(::testing::TempDir()) /
                      fmt::format("output_names_{}.asyra", ::getpid()))
                         .string();
  ASYRA_CHECK_OK(WriteFileAtomically(path, {kMlp}));
  EXPECT_GT(CountRenamed({.model = path}, {"tp=2", "sp=2,tp=2", "dp=2,tp=2"}),
            6);  // "total" and more
  std::filesystem::remove(path);
}

TEST(OutputNames, OfAnOnnxModelAreItsOwn) {
  CountRenamed({.model = ASYRA_SOURCE_DIR "/models/gpt2-tiny-op18/model.onnx",
                .dims = {"batch=4", "seq=64"}},
               {"sp=2,tp=2", "dp=2,tp=4"});
}

}  // namespace
}  // namespace asyra
