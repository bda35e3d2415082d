#include "frontends/onnx/tensor_proto.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "frontends/onnx/narrow_type.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

using onnx::TensorProto;

constexpr int64_t kMostElements = int64_t{1} << 48;

// Bytes in a message or a file, which `owner` keeps alive.
struct Bytes {
  std::string_view view;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const MappedFile> file = nullptr;  // instead of an owner
};

absl::StatusOr<int64_t> ParseCount(const std::string& key,
                                   const std::string& text) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Invalid("external data: {} is '{}', not a count of bytes", key,
                   text);
  }
  return value;
}

// "f32[4]" or "UINT8[4]"
std::string TypeOf(const TensorProto& proto) {
  const NarrowType* narrow = FindNarrowType(proto.data_type());
  std::string_view name = narrow != nullptr
                              ? narrow->name
                              : ToString(*DTypeFromOnnx(proto.data_type()));
  return fmt::format(
      "{}{}", name,
      ShapeToString(Shape(proto.dims().begin(), proto.dims().end())));
}

// The `need` bytes of a tensor that has them as bytes, not in a typed field.
absl::StatusOr<Bytes> RawBytes(const TensorProto& proto, int64_t need,
                               std::shared_ptr<const void> owner,
                               ExternalFiles* files) {
  if (proto.data_location() == TensorProto::EXTERNAL) {
    ASYRA_ASSIGN_OR_RETURN(ExternalBytes bytes,
                           ReadExternal(proto, need, files));
    return Bytes{bytes.view, nullptr, std::move(bytes.file)};
  }
  auto have = static_cast<int64_t>(proto.raw_data().size());
  if (have != need) {
    return Invalid("{} bytes of data, but {} takes {}", have, TypeOf(proto),
                   need);
  }
  return Bytes{proto.raw_data(), std::move(owner)};
}

bool IsRaw(const TensorProto& proto) {
  return proto.data_location() == TensorProto::EXTERNAL || proto.has_raw_data();
}

// Values kept one by one in a typed field of the message.
template <typename Field>
absl::StatusOr<Tensor> FromField(const Field& field, DType dtype,
                                 const Shape& shape) {
  Tensor tensor(dtype, Shape{0});
  if (field.size() != NumElements(shape)) {
    return Invalid("{} values, but shape {} takes {}", field.size(),
                   ShapeToString(shape), NumElements(shape));
  }
  tensor = Tensor(dtype, shape);
  for (int i = 0; i < field.size(); ++i) {
    if (dtype == DType::kF16 || dtype == DType::kBF16) {
      // int32_data holds the bits.
      auto bits = static_cast<uint16_t>(field.Get(i));
      tensor.Set(
          i, dtype == DType::kF16 ? HalfToFloat(bits) : BFloat16ToFloat(bits));
    } else if (IsFloat(dtype)) {
      tensor.Set(i, static_cast<double>(field.Get(i)));
    } else {
      tensor.SetInt(i, static_cast<int64_t>(field.Get(i)));
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> ReadNarrow(const TensorProto& proto,
                                  const NarrowType& type, const Shape& shape,
                                  ExternalFiles* files) {
  if (!IsRaw(proto)) {
    return type.carrier == DType::kI64
               ? FromField(proto.uint64_data(), type.carrier, shape)
               : FromField(proto.int32_data(), type.carrier, shape);
  }
  ASYRA_ASSIGN_OR_RETURN(
      Bytes bytes,
      RawBytes(proto, NumElements(shape) * type.bytes, nullptr, files));
  Tensor tensor(type.carrier, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    uint64_t value = 0;  // of little endian bytes
    std::memcpy(&value, bytes.view.data() + i * type.bytes, type.bytes);
    bool negative = type.is_signed && static_cast<int64_t>(value) > type.high();
    tensor.SetInt(i, static_cast<int64_t>(value) -
                         (negative ? int64_t{1} << (8 * type.bytes) : 0));
  }
  return tensor;
}

absl::StatusOr<Tensor> Read(const TensorProto& proto,
                            std::shared_ptr<const void> owner,
                            ExternalFiles* files) {
  Shape shape(proto.dims().begin(), proto.dims().end());
  ASYRA_RETURN_IF_ERROR(CheckShape(shape));
  if (proto.has_segment()) return Unimplemented("segments are not supported");
  if (const NarrowType* narrow = FindNarrowType(proto.data_type())) {
    return ReadNarrow(proto, *narrow, shape, files);
  }
  ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(proto.data_type()));
  if (IsRaw(proto)) {
    ASYRA_ASSIGN_OR_RETURN(Bytes bytes,
                           RawBytes(proto, NumElements(shape) * SizeOf(dtype),
                                    std::move(owner), files));
    const auto* data = reinterpret_cast<const std::byte*>(bytes.view.data());
    if (bytes.file == nullptr) {
      return Tensor::View(dtype, shape, data, std::move(bytes.owner));
    }
    int64_t offset = bytes.view.data() - bytes.file->bytes().data();
    return Tensor::View(dtype, shape, data, bytes.file, offset);
  }
  switch (dtype) {
    case DType::kF32:
      return FromField(proto.float_data(), dtype, shape);
    case DType::kF64:
      return FromField(proto.double_data(), dtype, shape);
    case DType::kI64:
      return FromField(proto.int64_data(), dtype, shape);
    default:
      return FromField(proto.int32_data(), dtype, shape);
  }
}

}  // namespace

absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type) {
  switch (data_type) {
    case TensorProto::BOOL:
      return DType::kBool;
    case TensorProto::INT32:
      return DType::kI32;
    case TensorProto::INT64:
      return DType::kI64;
    case TensorProto::FLOAT16:
      return DType::kF16;
    case TensorProto::BFLOAT16:
      return DType::kBF16;
    case TensorProto::FLOAT:
      return DType::kF32;
    case TensorProto::DOUBLE:
      return DType::kF64;
    default:
      if (data_type != static_cast<int32_t>(data_type) ||
          !TensorProto::DataType_IsValid(static_cast<int32_t>(data_type))) {
        return Unimplemented("element type {} is not supported", data_type);
      }
      return Unimplemented("element type {} is not supported",
                           TensorProto::DataType_Name(
                               static_cast<TensorProto::DataType>(data_type)));
  }
}

int32_t OnnxFromDType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return TensorProto::BOOL;
    case DType::kI32:
      return TensorProto::INT32;
    case DType::kI64:
      return TensorProto::INT64;
    case DType::kF16:
      return TensorProto::FLOAT16;
    case DType::kBF16:
      return TensorProto::BFLOAT16;
    case DType::kF32:
      return TensorProto::FLOAT;
    case DType::kF64:
      return TensorProto::DOUBLE;
  }
  return TensorProto::UNDEFINED;
}

absl::Status CheckShape(absl::Span<const int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 0) {
      return Invalid("shape {} has a negative size", ShapeToString(shape));
    }
    if (size > kMostElements / std::max<int64_t>(elements, 1)) {
      return Invalid("shape {} has more than 2^48 elements",
                     ShapeToString(shape));
    }
    elements *= std::max<int64_t>(size, 1);
  }
  return absl::OkStatus();
}

// A link may lead out of the folder that `path` seems to be in.
absl::Status ExternalFiles::CheckLinks(
    const std::filesystem::path& path) const {
  std::error_code error;
  auto real = std::filesystem::canonical(path, error);
  if (error) return absl::OkStatus();  // opening it says what is wrong
  auto folder = std::filesystem::canonical(
      model_.has_parent_path() ? model_.parent_path() : ".", error);
  auto [in_folder, in_path] =
      std::mismatch(folder.begin(), folder.end(), real.begin(), real.end());
  if (!error && in_folder == folder.end()) return absl::OkStatus();
  auto model = std::filesystem::canonical(model_, error);
  if (!error && model.parent_path() == real.parent_path()) {
    return absl::OkStatus();
  }
  return Invalid(
      "external data: {} is a link to {}, outside the model's folder",
      path.string(), real.string());
}

absl::StatusOr<std::shared_ptr<const MappedFile>> ExternalFiles::Open(
    const std::string& location) {
  auto found = files_.find(location);
  if (found != files_.end()) return found->second;
  std::filesystem::path relative(location);
  bool inside = !relative.empty() && !relative.is_absolute();
  for (const auto& part : relative) inside = inside && part != "..";
  if (!inside) {
    return Invalid(
        "external data: location '{}' is not inside the model's "
        "folder",
        location);
  }
  std::filesystem::path path = model_.parent_path() / relative;
  ASYRA_RETURN_IF_ERROR(CheckLinks(path));
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path.string()));
  files_.emplace(location, file);
  return file;
}

absl::StatusOr<ExternalBytes> ReadExternal(const TensorProto& proto,
                                           std::optional<int64_t> need,
                                           ExternalFiles* files) {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length = need;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      ASYRA_ASSIGN_OR_RETURN(offset, ParseCount("offset", entry.value()));
    }
    if (entry.key() == "length") {
      ASYRA_ASSIGN_OR_RETURN(length, ParseCount("length", entry.value()));
    }
  }
  if (need.has_value() && length != need) {
    return Invalid("external data: {} bytes, but {} takes {}", *length,
                   TypeOf(proto), *need);
  }
  if (files == nullptr) return Invalid("external data has no folder here");
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         files->Open(location));
  auto size = static_cast<int64_t>(file->bytes().size());
  int64_t rest = std::max<int64_t>(size - offset, 0);
  int64_t count = length.value_or(rest);
  if (offset > size || count > rest) {
    return Invalid(
        "external data: {} has {} bytes, the tensor is at [{}, {} + {})",
        location, size, offset, offset, count);
  }
  return ExternalBytes{file->bytes().substr(offset, count), file};
}

absl::StatusOr<Tensor> TensorFromProto(const TensorProto& proto,
                                       std::shared_ptr<const void> owner,
                                       ExternalFiles* files) {
  absl::StatusOr<Tensor> tensor = Read(proto, std::move(owner), files);
  if (!tensor.ok()) {
    return Annotate(tensor.status(), fmt::format("tensor '{}'", proto.name()));
  }
  return tensor;
}

}  // namespace asyra::onnx_import
