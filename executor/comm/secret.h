// A word that only the ranks of one job know, so that others are not taken for
// one of them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ir/support/environment.h"

namespace asyra {

// The first there is of: the text of `file`; of the file that ASYRA_SECRET_FILE
// names; ASYRA_SECRET; what the launcher calls the job: TORCHELASTIC_RUN_ID,
// SLURM_HET_JOB_ID or SLURM_JOB_ID with SLURM_STEP_ID, PMIX_NAMESPACE. Empty:
// nothing is known, and anybody who speaks the protocol may join. Names of jobs
// keep jobs apart, not people who can read them. There is no flag with the
// secret itself, which everybody could read in the list of processes.
// Errors: a file that cannot be read, is no regular one, larger than 4 KiB, or
// blank; ASYRA_SECRET that is blank. Space around a secret does not count.
absl::StatusOr<std::string> FindSecret(const std::string& file,
                                       const Environment& environment);

}  // namespace asyra
