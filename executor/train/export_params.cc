#include "executor/train/export_params.h"

#include <cstdint>
#include <filesystem>
#include <vector>

#include "executor/train/checkpoint_writer.h"
#include "ir/support/status.h"

namespace asyra {

// A checkpoint of the params alone, in one file, which is moved to where it is
// wanted.
absl::Status ExportParams(const std::string& path,
                          absl::Span<const CheckpointValue> values,
                          const Mesh& mesh, Communicator* world,
                          StateSet& states) {
  std::vector<CheckpointValue> params(values.begin(), values.end());
  std::erase_if(params, [](const auto& value) { return !value.is_param; });
  std::string directory = path + ".parts";
  CheckpointOptions options{.max_file_bytes = INT64_MAX};
  ASYRA_ASSIGN_OR_RETURN(
      auto writer,
      CheckpointWriter::Create(directory, params, mesh, world, options));
  ASYRA_RETURN_IF_ERROR(writer->Save(
      {.step = 1}, [&](const auto& value) { return states.Get(value.name); }));
  ASYRA_RETURN_IF_ERROR(writer->Finish());
  if (world != nullptr && world->rank() != 0) return absl::OkStatus();
  std::filesystem::path from(writer->last_complete());
  std::error_code error;
  std::filesystem::rename(from / "model-00001-of-00001.safetensors", path,
                          error);
  if (!error) std::filesystem::remove_all(directory, error);
  if (error) return Invalid("{}: {}", path, error.message());
  return absl::OkStatus();
}

}  // namespace asyra
