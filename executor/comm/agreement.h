// Agreement of ranks before the first step that they are about to run the same
// thing: ranks that issue different collectives hang or compute nonsense, and
// copies of one value that are computed by different algorithms differ.
#pragma once

#include <string>
#include <vector>

#include "executor/comm/communicator.h"
#include "executor/tuning/tuning_results.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// One thing that must be equal on all ranks, as lines to find the first
// difference in.
struct Agreement {
  std::string what;  // "the program"
  std::vector<std::string> lines;
  // Explains a difference, given the text of every rank, by rank. May be null
  // or return an empty string; the error then shows the first line that
  // differs.
  std::string (*explain)(const std::vector<std::string>& texts) = nullptr;
};

// The program's text with its streams and order, the names and types of its
// weights, and about 512 bytes of each weight, spread evenly: files may be
// larger than memory and are not read whole. This detects another checkpoint,
// but perhaps not a single changed weight.
std::vector<Agreement> AgreementsOf(const Program& program,
                                    const WeightStore* weights);

// Blocks until all ranks have called it. A difference is an error that names
// what differs, the ranks, and the first line that is not equal; for programs
// the first collective that differs, or the cycle in which ranks would wait
// (VerifyRanks). Ranks exchange hashes, and texts only if the hashes differ.
absl::Status CheckAgreement(Communicator& world,
                            const std::vector<Agreement>& mine);

// Returns for each key of `mine` the result of the first rank that has it,
// preferring ranks that could measure it. Keys name the model of the device, so
// ranks on different models keep their own results. Blocks until all ranks have
// called it, and a second time where they differ.
absl::StatusOr<TuningResults> SyncTuning(Communicator& world,
                                         const TuningResults& mine);

}  // namespace asyra
