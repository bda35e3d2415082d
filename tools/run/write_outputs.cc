#include "tools/run/write_outputs.h"

#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <set>

#include "frontends/onnx/import.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/safetensors.h"
#include "ir/weights/weight_store.h"
#include "tools/run/convert_tensor.h"
#include "tools/run/npy.h"

namespace asyra {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 200;  // file systems take 255 bytes

std::string SafeName(std::string name) {
  for (char& c : name) {
    bool word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
                c == '-' || c == '.';
    if (!word) c = '_';
  }
  if (name.empty() || name[0] == '.') name.insert(0, "_");
  if (name.size() > kLongestName) name.resize(kLongestName);
  return name;
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

absl::Status WriteOne(const std::string& name, const Tensor& output,
                      const std::string& form, const std::string& path) {
  if (form == kSafetensors) {
    WeightStore store;
    store.Set(name, output);
    return WriteWeights(store, path);
  }
  if (form == kPb) {
    absl::StatusOr<std::string> bytes = TensorProtoBytes(name, output);
    if (!bytes.ok()) return Annotate(bytes.status(), path);
    return WriteFileAtomically(path, {*bytes});
  }
  Tensor array = output;
  if (array.dtype() == DType::kBF16) {
    ASYRA_ASSIGN_OR_RETURN(array, ConvertTensor(array, DType::kF32, false));
  }
  std::string header = NpyHeader(array.dtype(), array.shape());
  return WriteFileAtomically(path,
                             {header,
                              {reinterpret_cast<const char*>(array.data()),
                               static_cast<size_t>(array.bytes())}});
}

absl::Status FileError(const fs::path& path, const std::error_code& error) {
  return Invalid("{}: cannot write: {}", path.string(), error.message());
}

// Moves all files of `from` to `to`.
absl::Status MoveFiles(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::exists(to, error)) {
    fs::rename(from, to, error);
    return error ? FileError(to, error) : absl::OkStatus();
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    fs::rename(entry.path(), to / entry.path().filename(), error);
    if (error) return FileError(to / entry.path().filename(), error);
  }
  return error ? FileError(to, error) : absl::OkStatus();
}

}  // namespace

std::vector<std::string> FileNames(absl::Span<const std::string> names) {
  std::vector<std::string> files;
  std::set<std::string> taken;
  for (const std::string& name : names) {
    std::string safe = SafeName(name), file = safe;
    for (int i = 2; !taken.insert(LowerCase(file)).second; ++i) {
      file = fmt::format("{}_{}", safe, i);
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> WriteOutputs(
    const Program& program, absl::Span<const Tensor> outputs,
    const std::string& folder, const std::string& form) {
  fs::path target = fs::path(folder).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "out/"
  fs::path staging = target;
  staging += fmt::format(".partial-{}", getpid());
  std::error_code error;
  if (!fs::create_directory(staging, error)) {
    if (!error) error = std::make_error_code(std::errc::file_exists);
    return FileError(staging, error);
  }
  std::vector<std::string> names, paths;
  for (const Output& output : program.outputs) {
    names.push_back(program.output_name(output));
  }
  std::vector<std::string> files = FileNames(names);
  absl::Status status;
  for (size_t i = 0; i < outputs.size() && status.ok(); ++i) {
    std::string file = fmt::format("{}.{}", files[i], form);
    status = WriteOne(names[i], outputs[i], form, (staging / file).string());
    paths.push_back((target / file).string());
  }
  if (status.ok()) status = MoveFiles(staging, target);
  fs::remove_all(staging, error);
  if (!status.ok()) return status;
  return paths;
}

}  // namespace asyra
