// Before the first step, ranks make sure that they are about to run the same
// thing: ranks that issue different collectives hang or compute nonsense, and
// copies of one value that are computed by different algorithms differ.
#pragma once

#include <string>
#include <vector>

#include "executor/comm/communicator.h"
#include "executor/tuning/tuning_results.h"
#include "ir/program.h"
#include "ir/weight_store.h"

namespace asyra {

// One thing that must be equal on all ranks, as lines to find the first
// difference in.
struct Agreement {
  std::string what;  // "the program"
  std::vector<std::string> lines;
  // Where ranks differ, says more of it than the first line that does, from
  // what all of them have, by rank; null, or an empty answer: nothing to add.
  std::string (*explain)(const std::vector<std::string>& texts) = nullptr;
};

// The program's text with its streams and order; the names and types of its
// weights, and about 512 bytes of each, spread evenly: files are mapped and may
// be larger than memory, so that none is read whole. Other checkpoints differ
// there; a single changed weight may not be noticed.
std::vector<Agreement> AgreementsOf(const Program& program,
                                    const WeightStore* weights);

// Blocks until all ranks have come here. Error where they differ: what,
// between which ranks, and the first line of both that is not equal; of
// programs the first collective that differs, or the circle in which ranks
// would wait (VerifyRanks), where that is what is wrong. Hashes are exchanged,
// and texts where these differ.
absl::Status CheckAgreement(Communicator& world,
                            const std::vector<Agreement>& mine);

// For each key of `mine` the result of the first rank that has it, of those
// that could measure it where there are any. Keys name the model of the device:
// ranks on other models have their own results. Blocks until all ranks have
// come here, once, and once more where they differ.
absl::StatusOr<TuningResults> SyncTuning(Communicator& world,
                                         const TuningResults& mine);

}  // namespace asyra
