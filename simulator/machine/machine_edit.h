// Hypothetical changes to the text of a machine file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "simulator/machine/machine.h"

namespace asyra {

// `text`, which parses, with each edit made in turn. An edit is KEY=VALUE or
// KEY*=FACTOR, the key as in "gpu.hbm_gbps.peak", the value a scalar, true or
// false.
// - A {peak, achievable} pair takes one number: its peak becomes that, and the
//   achievable rate keeps its fraction of it.
// - gpu.sms and gpu.clock_mhz carry all rates of arithmetic with them,
//   gpu.bf16_flops_per_sm_clock those of the matrix units.
// - A group takes a factor for all numbers that belong to it: `nvlink` or
//   `pcie`, as the host's link is, with what copy engines and CTAs
//   carry over it; `matrix`; `launch`.
// - Counts (SMs, CTAs, engines) are rounded when they are multiplied.
// Errors: an edit of another form, a key that is no number, with those that
// are spelled most similarly. Keys that the file lacks are added; ParseMachine
// then refuses unknown keys and values out of range.
absl::StatusOr<std::string> EditMachine(std::string_view text,
                                        absl::Span<const std::string> edits);

// The groups that this machine has.
std::vector<std::string> GroupsOf(std::string_view text);

// Every number of the text, as edits name it; `schema` is none.
std::vector<MachineNumber> NumbersOf(std::string_view text);

}  // namespace asyra
