#include "c/handles.h"

#include <cstring>

#include "ir/support/status.h"

namespace asyra::c {
namespace {

struct LastError {
  std::string message;
  const char* text = "";  // that of `message`, or a constant
};

LastError& LastErrorOfThread() {
  static thread_local LastError error;
  return error;
}

asyra_status CodeOf(const std::exception& exception) noexcept {
  try {
    return Code(absl::InternalError(exception.what()));
  } catch (...) {
    LastErrorOfThread().text = "an exception, and no memory for its message";
    return ASYRA_INTERNAL;
  }
}

static_assert(static_cast<int>(DType::kBool) == ASYRA_BOOL);
static_assert(static_cast<int>(DType::kI32) == ASYRA_I32);
static_assert(static_cast<int>(DType::kI64) == ASYRA_I64);
static_assert(static_cast<int>(DType::kF16) == ASYRA_F16);
static_assert(static_cast<int>(DType::kBF16) == ASYRA_BF16);
static_assert(static_cast<int>(DType::kF32) == ASYRA_F32);
static_assert(static_cast<int>(DType::kF64) == ASYRA_F64);

// Codes of asyra_status; others have no name there.
asyra_status NameOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
      return static_cast<asyra_status>(status.code());
    case absl::StatusCode::kCancelled:
      return ASYRA_ABORTED;
    default:
      return ASYRA_INTERNAL;
  }
}

}  // namespace

absl::Status CheckArguments(std::initializer_list<Argument> needed) {
  for (const Argument& argument : needed) {
    if (argument.value == nullptr) return Invalid("{} is NULL", argument.name);
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const char* type, size_t size) {
  if (size > sizeof(size)) return absl::OkStatus();
  return Invalid("{}: size is {}, it should be sizeof({})", type, size, type);
}

bool IsGiven(const char* name, const void* value) noexcept {
  return Guarded({{name, value}}, [] { return absl::OkStatus(); }) == ASYRA_OK;
}

asyra_status Code(const absl::Status& status) noexcept {
  if (status.ok()) return ASYRA_OK;
  try {
    LastError& error = LastErrorOfThread();
    error.message = std::string(MessageOf(status));
    error.text = error.message.c_str();
  } catch (...) {
    return CodeOfException();
  }
  return NameOf(status);
}

asyra_status CodeOfException() noexcept {
  const char*& text = LastErrorOfThread().text;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    text = "out of memory, also for a message that says where";
    return ASYRA_OUT_OF_MEMORY;
  } catch (const std::exception& exception) {
    return CodeOf(exception);
  } catch (...) {
    text = "an exception that is no std::exception";
    return ASYRA_INTERNAL;
  }
}

absl::StatusOr<std::vector<Tensor>> TensorsOf(
    absl::Span<const Executor::NamedInput> inputs, const void* const* buffers) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (buffers == nullptr || buffers[i] == nullptr) {
      return Invalid("the buffer of input {}, %{}, is NULL", i, inputs[i].name);
    }
    const Type& local = inputs[i].local;
    tensors.push_back(Tensor::View(local.dtype, local.shape(),
                                   static_cast<const std::byte*>(buffers[i]),
                                   /*owner=*/nullptr));
  }
  return tensors;
}

absl::Status FillInfo(std::string_view name, const Type& local,
                      asyra_tensor_info* info) {
  if (local.rank() > ASYRA_MAX_RANK) {
    return Invalid("%{} has {} dimensions, asyra_tensor_info has {}", name,
                   local.rank(), ASYRA_MAX_RANK);
  }
  asyra_tensor_info filled = {};
  filled.name = name.data();
  filled.dtype = static_cast<asyra_dtype>(local.dtype);
  filled.rank = local.rank();
  for (int d = 0; d < local.rank(); ++d) filled.shape[d] = local.size(d);
  filled.bytes = local.bytes();
  return FillStruct("asyra_tensor_info", filled, info);
}

absl::Status FillInfo(absl::Span<const Executor::NamedInput> inputs,
                      int32_t index, asyra_tensor_info* info) {
  if (index < 0 || static_cast<size_t>(index) >= inputs.size()) {
    return absl::OutOfRangeError(
        fmt::format("input {} of {}", index, inputs.size()));
  }
  return FillInfo(inputs[index].name, inputs[index].local, info);
}

absl::Status CopyOut(const absl::StatusOr<Tensor>& tensor, void* to,
                     int64_t bytes) {
  ASYRA_RETURN_IF_ERROR(tensor.status());
  if (tensor->bytes() != bytes) {
    return Invalid("the value has {} bytes, room for {} is given",
                   tensor->bytes(), bytes);
  }
  std::memcpy(to, tensor->data(), bytes);
  return absl::OkStatus();
}

}  // namespace asyra::c

int32_t asyra_version(void) {
  return 1000 * ASYRA_VERSION_MAJOR + ASYRA_VERSION_MINOR;
}

const char* asyra_last_error(void) {
  return asyra::c::LastErrorOfThread().text;
}
