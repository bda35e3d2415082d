// Documents that follow each other in rows of tokens.
#pragma once

#include <cstdint>

#include "passes/pass.h"

namespace asyra {

// Hides from each token the documents before its own: every attention gets
// starts (ir/ops/attention.h), the data input `document_starts`, i64 [rows,
// length]: of each token, the place in its row where its document begins.
// Option `documents` says how many a row has, about: what attention costs
// follows from it.
//
// Errors: fewer documents than one; no attention; one that is not causal, or
// whose rows are not its keys: other documents would be seen; attentions of
// different rows; starts that are there already; an input of that name. They
// name the attention.
absl::StatusOr<bool> MaskDocuments(Program& program, const PassOptions& options,
                                   PassContext& context);

// Tells each attention that has starts how many documents a row has, about.
void SetDocuments(int64_t documents, Program* program);

}  // namespace asyra
