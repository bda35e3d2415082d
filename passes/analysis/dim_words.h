// Names of dimensions with a known meaning. A name is split into words, at
// characters that are no letters and before capitals, and is known if all of
// its words are:
//   batch       batch, bs, bsz
//   tokens      seq, sequence, time, token, frame, past, length, ...
//   either way  size, num, max, total, cache, encoder, source, ...
// So batch_size, imageBatch_1 and "past_sequence_length + 1" are, while names
// of both (batch_x_seq), products (batch*heads), counts of sequences
// (num_seqs) and hidden_size are not: their meaning follows from how values
// flow, as for dimensions without a name. The lists are in dim_words.cc.
#pragma once

#include <string_view>

#include "passes/analysis/dim_labels.h"

namespace asyra {

// kNone: the name does not say.
DimLabel LabelOfName(std::string_view name);

}  // namespace asyra
