#include "executor/train/checkpoint_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "executor/comm/agreement.h"
#include "executor/comm/rank_error.h"
#include "executor/train/checkpoint_part.h"
#include "executor/train/folder_lock.h"
#include "ir/printer.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Names the step of a write: a call may get the error of an earlier one.
absl::Status OfStep(const CheckpointPart& part, const absl::Status& status) {
  return Annotate(status, fmt::format("{} of step {} could not be written",
                                      part.what, part.info.step));
}

// WritePart on a thread of its own.
class PartThread {
 public:
  explicit PartThread(std::unique_ptr<CheckpointPart> part)
      : part_(std::move(part)), thread_([this] { Run(); }) {}
  ~PartThread() {
    Cancel();
    thread_.join();
    // Rank 0 does not wait for a rank that has failed: the folder is gone. The
    // first error counts, not that of cleaning up.
    bool removes = part_->rank == 0 || !absl::IsCancelled(done_status_);
    if (!done_status_.ok() && removes) {
      RemoveFolder(part_->folder).IgnoreError();
    }
  }

  void Cancel() { part_->cancelled.store(true); }

  // Waits for at most `longest`; whether it has ended.
  bool WaitFor(std::chrono::microseconds longest) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [this] { return done_; });
  }

  // Returns the status of a thread that has ended.
  absl::Status status() {
    std::lock_guard lock(mutex_);
    return done_status_;
  }
  std::string target() const { return part_->target(); }

 private:
  void Run() {
    absl::Status status =
        WithinMemory([this] { return WritePart(part_.get()); });
    status = OfStep(*part_, status);
    std::lock_guard lock(mutex_);
    done_ = true;
    done_status_ = status;
    changed_.notify_all();
  }

  const std::unique_ptr<CheckpointPart> part_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  absl::Status done_status_;
  std::thread thread_;  // the last: it uses the others
};

class Writer : public CheckpointWriter {
 public:
  Writer(std::string directory, std::vector<CheckpointValue> values,
         const Mesh& mesh, Communicator* world,
         const CheckpointOptions& options)
      : directory_(std::move(directory)),
        values_(std::move(values)),
        mesh_(mesh),
        world_(world),
        options_(options) {}

  absl::Status Prepare() {
    int64_t ranks = world_ == nullptr ? 1 : world_->size();
    if (mesh_.num_devices() != ranks) {
      return Invalid("the checkpoint is of {} devices, {}, the world has {}",
                     mesh_.num_devices(), ToString(mesh_), ranks);
    }
    if (world_ != nullptr) {
      ASYRA_RETURN_IF_ERROR(
          CheckAgreement(*world_, {{"the values of checkpoints", Lines()}}));
    }
    ASYRA_ASSIGN_OR_RETURN(layout_,
                           LayOutCheckpoint(values_, options_.max_file_bytes));
    return Agree(rank() == 0 ? MakeDirectory() : absl::OkStatus(), "").status();
  }

  absl::Status Save(const CheckpointInfo& info, ReadLocal read) override {
    ASYRA_RETURN_IF_ERROR(Finish());
    auto part = std::make_unique<CheckpointPart>();
    part->values = &values_;
    part->layout = &layout_;
    part->mesh = &mesh_;
    part->rank = rank();
    part->ranks = mesh_.num_devices();
    part->keep = options_.keep;
    part->directory = directory_;
    part->info = info;
    part->what = options_.what;
    absl::Status begun = Begin(part.get(), read);
    if (!begun.ok()) {
      if (rank() == 0) RemoveFolder(part->folder).IgnoreError();
      return begun;
    }
    writing_ = std::make_unique<PartThread>(std::move(part));
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    return writing_ == nullptr ? absl::OkStatus() : Close(Settle());
  }

  absl::Status FinishAlone() override {
    if (writing_ == nullptr) return absl::OkStatus();
    constexpr std::chrono::microseconds kPause(20'000);
    while (!writing_->WaitFor(kPause)) {
      if (world_ == nullptr) continue;
      absl::Status world = world_->Check(0);
      if (world.ok()) continue;
      writing_->Cancel();
      return world;
    }
    return Close(writing_->status());
  }

  std::string last_complete() const override {
    bool complete = writing_ != nullptr && rank() == 0 &&
                    writing_->WaitFor(std::chrono::microseconds(0)) &&
                    writing_->status().ok();
    return complete ? writing_->target() : last_complete_;
  }

  std::string note() const override {
    return lock_ == nullptr ? "" : lock_->note();
  }

 private:
  int64_t rank() const { return world_ == nullptr ? 0 : world_->rank(); }

  // Ends the write whose result is `status`, and returns it.
  absl::Status Close(absl::Status status) {
    if (status.ok()) last_complete_ = writing_->target();
    writing_.reset();
    return status;
  }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines = {ToString(mesh_)};
    for (const CheckpointValue& value : values_) {
      lines.push_back(fmt::format("%{}: {} stored {}", value.name,
                                  ToString(value.type, mesh_),
                                  ShapeToString(value.stored)));
      if (value.origin != nullptr) lines.back() += ToString(*value.origin);
    }
    return lines;
  }

  // Makes the directory if it does not exist. The lock's file sees whether it
  // can be written.
  absl::Status MakeDirectory() {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (error) return Invalid("{}: {}", directory_, error.message());
    ASYRA_ASSIGN_OR_RETURN(lock_, FolderLock::Take(directory_));
    return RemoveUnfinished(directory_);
  }

  // All ranks call it. The error of the first rank that has one, else what rank
  // 0 says.
  absl::StatusOr<std::string> Agree(const absl::Status& mine,
                                    std::string_view text) {
    if (world_ == nullptr) {
      if (!mine.ok()) return mine;
      return std::string(text);
    }
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<std::string> said,
        world_->Exchange(fmt::format("{}{}", mine.ok() ? '+' : '-',
                                     mine.ok() ? text : MessageOf(mine))));
    for (size_t i = 0; i < said.size(); ++i) {
      if (said[i].starts_with('-')) {
        return Told(i, said[i]);
      }
    }
    return said[0].substr(1);
  }

  // The error that a rank tells all, this one too.
  absl::Status Told(int64_t rank, std::string_view said) const {
    absl::Status cause = Invalid("{}", said.substr(1));
    return rank == world_->rank() ? cause : RankFailed(rank, cause);
  }

  absl::Status Begin(CheckpointPart* part, ReadLocal read) {
    absl::Status made = rank() == 0 ? MakeFolder(part) : absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(std::string folder,
                           Agree(OfStep(*part, made), part->folder));
    part->folder = folder;
    absl::Status ready = rank() == 0 ? absl::OkStatus() : OpenFiles(part);
    if (ready.ok()) ready = ReadTensors(part, read);
    return Agree(OfStep(*part, ready), "").status();
  }

  absl::Status ReadTensors(CheckpointPart* part, ReadLocal read) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const CheckpointValue& value = values_[i];
      if (!WritesPart(value.type, mesh_, part->rank)) continue;
      absl::StatusOr<Tensor> tensor = read(value);
      if (!tensor.ok()) {
        return Annotate(tensor.status(), fmt::format("%{}", value.name));
      }
      Type local = value.type.Local(mesh_);
      if (tensor->dtype() != local.dtype || tensor->shape() != local.shape()) {
        return Invalid("%{} is given as {}{}, this rank's part is {}{}",
                       value.name, ToString(tensor->dtype()),
                       ShapeToString(tensor->shape()), ToString(local.dtype),
                       ShapeToString(local.shape()));
      }
      if (value.turned) *tensor = TransposedMatrix(*tensor);
      part->tensors.emplace_back(i, *std::move(tensor));
    }
    return absl::OkStatus();
  }

  // Waits until all ranks have ended, or one has failed. Ranks tell each other
  // again and again, since none may wait in Exchange for longer than its
  // timeout.
  absl::Status Settle() {
    std::chrono::microseconds pause(1000);
    constexpr std::chrono::microseconds kLongest(250'000);
    while (true) {
      bool done = writing_->WaitFor(pause);
      pause = std::min(pause * 2, kLongest);
      if (world_ == nullptr) {
        if (done) return writing_->status();
        continue;
      }
      absl::Status mine = done ? writing_->status() : absl::OkStatus();
      std::string text = !done       ? "?"
                         : mine.ok() ? "+"
                                     : "-" + std::string(MessageOf(mine));
      ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                             world_->Exchange(text));
      bool all_done = true;
      for (size_t i = 0; i < said.size(); ++i) {
        if (said[i].starts_with('-')) {
          return Told(i, said[i]);
        }
        all_done &= said[i] == "+";
      }
      if (all_done) return absl::OkStatus();
    }
  }

  const std::string directory_;
  const std::vector<CheckpointValue> values_;
  const Mesh mesh_;
  Communicator* const world_;
  const CheckpointOptions options_;
  std::unique_ptr<FolderLock> lock_;  // rank 0
  CheckpointLayout layout_;
  std::unique_ptr<PartThread> writing_;
  std::string last_complete_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    const std::string& directory, std::vector<CheckpointValue> values,
    const Mesh& mesh, Communicator* world, const CheckpointOptions& options) {
  auto writer = std::make_unique<Writer>(directory, std::move(values), mesh,
                                         world, options);
  ASYRA_RETURN_IF_ERROR(writer->Prepare());
  return writer;
}

}  // namespace asyra
