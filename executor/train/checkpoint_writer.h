// Writes checkpoints behind the steps: values are copied between two steps, and
// a thread writes them while the next steps run.
//
//   ASYRA_ASSIGN_OR_RETURN(
//       std::unique_ptr<CheckpointWriter> writer,
//       CheckpointWriter::Create("run", CheckpointValuesOf(step), step.mesh,
//                                &world, {.keep = 3}));
//   for (...) {
//     ...
//     ASYRA_RETURN_IF_ERROR(writer->Save(
//         {.step = n}, [&](const CheckpointValue& value) {
//           return executor->State(value.name);
//         }));
//   }
//   ASYRA_RETURN_IF_ERROR(writer->Finish());
//
// Each region of a value is written once, by the rank that holds it and is
// first among its replicas, with pwrite into files that all ranks share. Rank 0
// renames the folder once all ranks have flushed their parts. Ranks synchronize
// in Save and Finish only (Communicator::Exchange); in between, they tell rank
// 0 by small files in the folder, which have the checksums of their parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/comm/communicator.h"
#include "executor/train/checkpoint.h"

namespace asyra {

struct CheckpointOptions {
  // The newest checkpoints that stay; older ones are removed once a newer one
  // is complete. 0: all.
  int64_t keep = 0;
  // A file ends before the tensor that would make it larger, so only a file of
  // one tensor is. Files are written whole or in parts by any rank.
  int64_t max_file_bytes = int64_t{4} << 30;
  std::string what = "checkpoint";  // in messages
};

// Used by one thread.
class CheckpointWriter {
 public:
  // This rank's value, of the local type; it may stay shared with the caller
  // but must not change.
  using ReadLocal =
      absl::FunctionRef<absl::StatusOr<Tensor>(const CheckpointValue&)>;

  // `world` outlives the writer; null where the mesh is one device. Its ranks
  // are the mesh's devices. All ranks call it with equal arguments. Makes the
  // directory, takes its lock (folder_lock.h), and removes what unfinished
  // writers left in it.
  // Errors, on all ranks: a directory that cannot be made or written, or that
  // another writer has, of this run or another; values
  // that are partial or named twice; ranks whose values differ; a world of
  // another size than the mesh.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(
      const std::string& directory, std::vector<CheckpointValue> values,
      const Mesh& mesh, Communicator* world,
      const CheckpointOptions& options = {});
  // Gives up what is not complete; call Finish or FinishAlone before.
  virtual ~CheckpointWriter() = default;

  // Begins a checkpoint of this step, between two steps. All ranks call it.
  // Waits for the one before; where that has failed, returns its error and
  // begins none. Then reserves the files' space, asks `read` for the values
  // that this rank writes, in the order of `values`, and returns. Only reads
  // the run's state: after an error the run can go on, and Save may be called
  // again.
  // Errors, the same on all ranks: the system's, naming the file, such as a
  // full disk with the bytes that are needed; a file that a rank does not see;
  // `read`'s, naming the value; a value of another type than its local one.
  virtual absl::Status Save(const CheckpointInfo& info, ReadLocal read) = 0;

  // Waits until what Save began is complete. All ranks call it. The error of
  // that checkpoint if there is one.
  virtual absl::Status Finish() = 0;

  // The same without synchronizing with the other ranks, for a rank that ends:
  // it has written its part, and rank 0 has waited for those of the others,
  // unless one of them has failed.
  virtual absl::Status FinishAlone() = 0;

  // Returns the folder of the last checkpoint that this rank knows to be
  // complete; empty: none yet.
  virtual std::string last_complete() const = 0;

  // Rank 0: why nothing keeps other runs out of the directory; else empty.
  virtual std::string note() const = 0;
};

}  // namespace asyra
