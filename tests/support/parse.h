// Programs of tests, from their text; a test whose text is wrong dies.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ir/mesh.h"
#include "ir/parser.h"
#include "ir/program.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"

namespace asyra {

// Not verified, so that tests of the verifier can use it.
inline Program Parse(std::string_view text) {
  return ASYRA_VALUE(ParseProgram(text));
}

// On a mesh that the text does not state.
inline Program ParseOn(std::string_view text, std::vector<Mesh::Axis> axes) {
  Program program = Parse(text);
  program.mesh = ASYRA_VALUE(Mesh::Create(std::move(axes)));
  return program;
}

inline Program ParseVerified(std::string_view text) {
  Program program = Parse(text);
  ASYRA_CHECK_OK(Verify(program));
  return program;
}

}  // namespace asyra
