// A program of fewer layers, for fast experiments.
#pragma once

#include <cstdint>

#include "ir/program.h"

namespace asyra {

// Layers of the program on which a schedule is decided.
inline constexpr int kScheduledLayers = 4;

// Returns `program` (stage global or local) with at most `layers` of each
// stretch of equal layers (repeats.h): readers of the last layer read the last
// one kept. The result is a program to simulate, not one that computes the
// same.
//
// In a training step a forward layer and its mirrored backward layer go
// together; a few more layers may stay where the two runs do not cover the same
// ones. What is made once a layer from results of removed layers, as the
// update of its weights, goes with them. What combines all layers, as the norm
// of the gradients, reads the last one kept instead.
//
// What only removed layers read, as a gather of their weights, goes as well.
//
// Inputs stay, and with them the resident memory; outputs of removed layers are
// removed, and their states become weights, or are handed on as they are where
// they are partial. `cut_bytes`, unless null, gets the bytes of values of
// removed layers that are alive between the runs of layers, at most: the stash
// and the gradients. It is 0 where no layers are mirrored. The program itself
// if nothing repeats more often, or, where no layers are mirrored, if results
// of layers are read elsewhere than in the next layer and after the last.
Program Shorten(const Program& program, int layers,
                int64_t* cut_bytes = nullptr);

}  // namespace asyra
