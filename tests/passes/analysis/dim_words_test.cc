// Names say what a dimension is where all of their words are known.
#include "passes/analysis/dim_words.h"

#include "gtest/gtest.h"

namespace asyra {
namespace {

TEST(DimWords, NamesOfTheBatch) {
  for (std::string_view name :
       {"batch", "batch_size", "BATCH", "batchSize", "image_batch_size",
        "batch0", "bs", "decoder.batch"}) {
    EXPECT_EQ(LabelOfName(name), DimLabel::kBatch) << name;
  }
}

TEST(DimWords, NamesOfTokens) {
  for (std::string_view name :
       {"seq", "sequence", "sequence_length", "seq_len", "seqLen", "time",
        "tokens", "num_tokens", "past_sequence_length", "past_kv_len",
        "past_sequence_length + 1", "encoder_sequence_length / 2",
        "past_sequence_length + sequence_length", "nb_max_frames", "seq-2"}) {
    EXPECT_EQ(LabelOfName(name), DimLabel::kSequence) << name;
  }
}

TEST(DimWords, NamesThatSayNothingForSure) {
  for (std::string_view name : {"",
                                "N",
                                "x",
                                "s0",
                                "unk__12",
                                "input_ids_dynamic_axes_1",
                                "height",
                                "batch_x_seq",
                                "batch_sequence",
                                "batch * heads",
                                "seq*2",
                                "num_seqs",
                                "num_sequences",
                                "time_features",
                                "hidden_size",
                                "token_types",
                                "vocab_length",
                                "size",
                                "1",
                                "b\xc3\xa4tch"}) {
    EXPECT_EQ(LabelOfName(name), DimLabel::kNone) << name;
  }
}

}  // namespace
}  // namespace asyra
