// Checks that a model has only ops that the importer knows.
#pragma once

#include "absl/status/status.h"
#include "frontends/onnx/bodies.h"

namespace asyra::onnx_import {

// Looks at all nodes that `body` needs, those of functions and subgraphs
// included. Errors: all unknown ops at once, with domain, opset version, a
// node and how many there are, so that a user sees how far off a model is; a
// function that calls itself.
//
// A branch of an If may never be taken, so unknown ops in it are no error yet.
// The importer checks again when it takes the branch.
absl::Status CheckOps(const Body& body, const Opsets& opsets, Bodies& bodies);

// Maximum nesting of functions and subgraphs.
inline constexpr int kMostNesting = 100;

}  // namespace asyra::onnx_import
