#include "executor/train/checkpoint_part.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "executor/train/part_checksum.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/shard_runs.h"

namespace asyra {
namespace {

namespace fs = std::filesystem;

constexpr char kPartial[] = ".partial-";

std::string MarkerOf(const CheckpointPart& part, int64_t rank) {
  return fmt::format("{}/rank-{}.written", part.folder, rank);
}

absl::Status CheckCancelled(const CheckpointPart& part) {
  if (!part.cancelled.load()) return absl::OkStatus();
  return absl::CancelledError(part.folder + ": given up");
}

absl::Status WriteHeaders(CheckpointPart* part) {
  for (size_t i = 0; i < part->files.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(
        part->files[i]->WriteAt(0, part->layout->files[i].header));
  }
  return absl::OkStatus();
}

absl::Status WriteTensor(CheckpointPart* part, size_t value,
                         const Tensor& local) {
  const CheckpointValue& what = (*part->values)[value];
  const CheckpointLayout::Place& place = part->layout->places[value];
  const char* data = reinterpret_cast<const char*>(local.data());
  int64_t element = SizeOf(what.type.dtype);
  Shape shape = what.written_shape();
  PartChecksum checksum;
  auto write = [&](ShardRun run) {
    std::string_view bytes(data + run.shard * element,
                           static_cast<size_t>(run.count * element));
    checksum.Add(run.whole * element, bytes);
    return part->files[place.file]->WriteAt(place.offset + run.whole * element,
                                            bytes);
  };
  auto write_in_tensor = [&](ShardRun run) {
    while (what.origin != nullptr && run.count > 0) {
      OriginRun at = RunAt(*what.origin, run.whole, run.whole + run.count);
      ASYRA_RETURN_IF_ERROR(write({at.whole, run.shard, at.count}));
      run.whole += at.count;
      run.shard += at.count;
      run.count -= at.count;
    }
    return run.count > 0 ? write(run) : absl::OkStatus();
  };
  ASYRA_RETURN_IF_ERROR(ForEachShardRun(shape, what.written_type(), *part->mesh,
                                        part->rank, write_in_tensor));
  part->checksums[value] =
      checksum.Finish(NumElements(what.tensor_shape()) * element);
  return absl::OkStatus();
}

absl::Status WriteAndSync(CheckpointPart* part) {
  if (part->rank == 0) ASYRA_RETURN_IF_ERROR(WriteHeaders(part));
  part->checksums.assign(part->values->size(), 0);
  for (const auto& [value, local] : part->tensors) {
    ASYRA_RETURN_IF_ERROR(CheckCancelled(*part));
    ASYRA_RETURN_IF_ERROR(WriteTensor(part, value, local));
  }
  for (auto& file : part->files) {
    ASYRA_RETURN_IF_ERROR(CheckCancelled(*part));
    if (file != nullptr) ASYRA_RETURN_IF_ERROR(file->Sync());
    file.reset();
  }
  part->tensors.clear();
  return absl::OkStatus();
}

// The marker of a rank has the checksums of its parts, by value. It takes its
// name when it is complete.
absl::Status WriteMarker(const CheckpointPart& part) {
  std::string_view bytes(reinterpret_cast<const char*>(part.checksums.data()),
                         part.checksums.size() * sizeof(uint32_t));
  return WriteFileAtomically(MarkerOf(part, part.rank), {bytes});
}

// Adds what a rank has written to what rank 0 has.
absl::Status TakeMarker(const std::string& path, CheckpointPart* part) {
  ASYRA_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  size_t expected = part->checksums.size() * sizeof(uint32_t);
  if (bytes.size() != expected) {
    return Invalid("{}: it has {} bytes, there should be {}", path,
                   bytes.size(), expected);
  }
  for (size_t i = 0; i < part->checksums.size(); ++i) {
    uint32_t checksum = 0;
    std::memcpy(&checksum, bytes.data() + i * sizeof(checksum),
                sizeof(checksum));
    part->checksums[i] ^= checksum;
  }
  return absl::OkStatus();
}

TensorChecksums ChecksumsOf(const CheckpointPart& part) {
  // Values of one tensor add up as the parts of one value do.
  TensorChecksums parts, checksums;
  for (size_t i = 0; i < part.values->size(); ++i) {
    parts[(*part.values)[i].tensor()] ^= part.checksums[i];
  }
  for (const CheckpointValue& value : *part.values) {
    int64_t bytes =
        NumElements(value.tensor_shape()) * SizeOf(value.type.dtype);
    checksums[value.tensor()] = WholeChecksum(parts[value.tensor()], bytes);
  }
  return checksums;
}

// Waits until all other ranks have flushed their parts. A folder is looked at,
// since the ranks may be doing anything else meanwhile.
absl::Status WaitForOthers(CheckpointPart* part) {
  std::chrono::microseconds pause(200);
  constexpr std::chrono::microseconds kLongest(50'000);
  for (int64_t rank = 1; rank < part->ranks; ++rank) {
    std::string marker = MarkerOf(*part, rank);
    struct stat info;
    while (::stat(marker.c_str(), &info) != 0) {
      if (errno != ENOENT) {
        return Invalid("{}: {}", marker, std::strerror(errno));
      }
      ASYRA_RETURN_IF_ERROR(CheckCancelled(*part));
      if (::stat(part->folder.c_str(), &info) != 0) {
        return Invalid("{}: rank {} or another one has given it up",
                       part->folder, rank);
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongest);
    }
    ASYRA_RETURN_IF_ERROR(TakeMarker(marker, part));
  }
  std::error_code error;
  for (int64_t rank = 1; rank < part->ranks && !error; ++rank) {
    fs::remove(MarkerOf(*part, rank), error);
  }
  if (error) return Invalid("{}: {}", part->folder, error.message());
  return absl::OkStatus();
}

absl::Status RemoveOld(const CheckpointPart& part) {
  if (part.keep <= 0) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all,
                         ListCheckpoints(part.directory));
  // The one that is new counts, also where later steps of another run are
  // there.
  std::erase(all, part.target());
  for (size_t i = 0; i + part.keep <= all.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(RemoveFolder(all[i]));
  }
  return absl::OkStatus();
}

absl::Status Complete(CheckpointPart* part) {
  for (const auto& index : part->layout->indices) {
    ASYRA_RETURN_IF_ERROR(
        WriteSynced(part->folder + "/" + index.name, index.text));
  }
  ASYRA_RETURN_IF_ERROR(WriteSynced(
      fmt::format("{}/{}", part->folder, kCheckpointJson),
      CheckpointJson(part->info, *part->layout, ChecksumsOf(*part))));
  ASYRA_RETURN_IF_ERROR(SyncFolder(part->folder));
  ASYRA_RETURN_IF_ERROR(CheckCancelled(*part));
  ASYRA_RETURN_IF_ERROR(ReplaceFolder(part->folder, part->target()));
  ASYRA_RETURN_IF_ERROR(SyncFolder(part->directory));
  // A checkpoint of the same step that existed has the other name now.
  ASYRA_RETURN_IF_ERROR(RemoveFolder(part->folder));
  return RemoveOld(*part);
}

}  // namespace

bool WritesPart(const Type& type, const Mesh& mesh, int64_t device) {
  AxisList replicas;
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    bool shards = std::any_of(
        type.dims.begin(), type.dims.end(),
        [axis](const Dim& dim) { return Contains(dim.axes, axis); });
    if (!shards) replicas.push_back(axis);
  }
  return mesh.GroupIndex(device, replicas) == 0;
}

std::string CheckpointPart::target() const {
  return (fs::path(directory) / CheckpointName(info.step)).string();
}

absl::Status MakeFolder(CheckpointPart* part) {
  part->folder = part->target() + kPartial + RandomName();
  if (::mkdir(part->folder.c_str(), 0777) != 0) {
    return Invalid("{}: cannot make the folder: {}", part->folder,
                   std::strerror(errno));
  }
  for (const CheckpointLayout::File& file : part->layout->files) {
    ASYRA_ASSIGN_OR_RETURN(
        part->files.emplace_back(),
        DiskFile::Create(part->folder + "/" + file.name, file.bytes));
  }
  return absl::OkStatus();
}

absl::Status OpenFiles(CheckpointPart* part) {
  part->files.resize(part->layout->files.size());
  for (size_t i = 0; i < part->values->size(); ++i) {
    size_t file = part->layout->places[i].file;
    bool writes = WritesPart((*part->values)[i].type, *part->mesh, part->rank);
    if (!writes || part->files[file] != nullptr) continue;
    absl::StatusOr<std::unique_ptr<DiskFile>> opened =
        DiskFile::Open(part->folder + "/" + part->layout->files[file].name);
    if (!opened.ok()) {
      return Invalid(
          "{}, where rank 0 has made it: ranks write into one "
          "folder, on a file system that all of them see",
          MessageOf(opened.status()));
    }
    part->files[file] = *std::move(opened);
  }
  return absl::OkStatus();
}

absl::Status WritePart(CheckpointPart* part) {
  ASYRA_RETURN_IF_ERROR(WriteAndSync(part));
  if (part->rank != 0) return WriteMarker(*part);
  ASYRA_RETURN_IF_ERROR(WaitForOthers(part));
  return Complete(part);
}

absl::Status RemoveUnfinished(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> left;
  for (fs::directory_iterator entries(directory, error), end;
       !error && entries != end; entries.increment(error)) {
    std::string name = entries->path().filename().string();
    bool ours = name.starts_with(kCheckpointPrefix) &&
                (name.find(kPartial) != std::string::npos ||
                 name.ends_with(kRemovedSuffix));
    if (ours) left.push_back(entries->path().string());
  }
  if (error) return Invalid("{}: {}", directory, error.message());
  for (const std::string& folder : left) {
    ASYRA_RETURN_IF_ERROR(RemoveFolder(folder));
  }
  return absl::OkStatus();
}

}  // namespace asyra
