// The part of a checkpoint that one rank writes, and its completion by rank 0.
// All of it runs on the thread behind the steps.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/train/checkpoint.h"
#include "executor/train/checkpoint_layout.h"
#include "executor/train/disk_file.h"

namespace asyra {

// Returns whether `device` is the first of the ranks that hold the same part of
// a value of this type: the one that writes it.
bool WritesPart(const Type& type, const Mesh& mesh, int64_t device);

// A checkpoint that is being written.
struct CheckpointPart {
  const std::vector<CheckpointValue>* values = nullptr;
  const CheckpointLayout* layout = nullptr;
  const Mesh* mesh = nullptr;
  int64_t rank = 0, ranks = 1;
  int64_t keep = 0;
  std::string directory;
  std::string folder;  // until it is complete
  CheckpointInfo info;
  std::string what;  // in messages: CheckpointOptions
  // The layout's files, in its order; null where this rank writes nothing.
  std::vector<std::unique_ptr<DiskFile>> files;
  std::vector<std::pair<size_t, Tensor>> tensors;  // value, local part
  // Checksums of the bytes written so far (PartChecksum::Finish), by value.
  std::vector<uint32_t> checksums;
  std::atomic<bool> cancelled = false;

  std::string target() const;  // of the folder, when it is complete
};

// Rank 0: a new folder with a file for each of the layout's, of its size. The
// name is one that nobody else takes.
absl::Status MakeFolder(CheckpointPart* part);
// The other ranks: opens those files of the folder in which they write.
absl::Status OpenFiles(CheckpointPart* part);

// Writes the parts of this rank and flushes them. The other ranks then say so
// to rank 0, with the checksums of their parts; it waits for them, writes what
// is left, renames the folder, and removes checkpoints beyond `keep`. Error
// also: Cancelled, soon after `cancelled` was set.
absl::Status WritePart(CheckpointPart* part);

// Removes what writers have left in the directory that did not complete it.
absl::Status RemoveUnfinished(const std::string& directory);

}  // namespace asyra
