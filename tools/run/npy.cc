#include "tools/run/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kAlignment = 64;
constexpr int64_t kMostElements = int64_t{1} << 48;

struct Header {
  std::string descr;  // "<f4"
  bool by_columns = false;
  Shape shape;
};

std::string_view Stripped(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The text behind `'key':` in a dictionary of Python.
std::optional<std::string_view> Field(std::string_view dict,
                                      std::string_view key) {
  for (char quote : {'\'', '"'}) {
    std::string quoted = quote + std::string(key) + quote;
    size_t at = dict.find(quoted);
    if (at == std::string_view::npos) continue;
    dict = Stripped(dict.substr(at + quoted.size()));
    if (!dict.starts_with(':')) return std::nullopt;
    return Stripped(dict.substr(1));
  }
  return std::nullopt;
}

// "(2, 3)", "(2,)" or "()".
absl::StatusOr<Shape> ReadShape(std::string_view text) {
  size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) {
    return Invalid("its header has no shape");
  }
  Shape shape;
  int64_t elements = 1;
  for (size_t at = 1; at <= end;) {
    size_t comma = std::min(text.find(',', at), end);
    std::string_view part = Stripped(text.substr(at, comma - at));
    at = comma + 1;
    if (part.empty()) continue;
    int64_t size = -1;
    auto [last, error] =
        std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc() || last != part.data() + part.size() || size < 0) {
      return Invalid("its shape has a size of '{}'", part);
    }
    if (size > kMostElements / std::max<int64_t>(elements, 1)) {
      return Invalid("its shape has more than 2^48 elements");
    }
    elements *= std::max<int64_t>(size, 1);
    shape.push_back(size);
  }
  return shape;
}

// Reads the header and leaves the data in `bytes`.
absl::StatusOr<Header> ReadHeader(std::string_view* bytes) {
  if (!bytes->starts_with(kMagic) || bytes->size() < kMagic.size() + 4) {
    return Invalid("it is no .npy file");
  }
  bytes->remove_prefix(kMagic.size());
  int version = (*bytes)[0];
  size_t length_bytes = version == 1 ? 2 : 4, length = 0;
  if (version < 1 || version > 3 || bytes->size() < 2 + length_bytes) {
    return Invalid("it is a .npy file of version {}, 1 to 3 are known",
                   version);
  }
  std::memcpy(&length, bytes->data() + 2, length_bytes);
  bytes->remove_prefix(2 + length_bytes);
  if (length > bytes->size()) {
    return Invalid("its header has {} bytes, the file {} after its length",
                   length, bytes->size());
  }
  std::string_view dict = bytes->substr(0, length);
  bytes->remove_prefix(length);
  auto descr = Field(dict, "descr"), order = Field(dict, "fortran_order"),
       shape = Field(dict, "shape");
  if (!descr || !order || !shape) {
    return Invalid("its header lacks descr, fortran_order or shape");
  }
  Header header{.by_columns = order->starts_with("True")};
  if (descr->empty() || ((*descr)[0] != '\'' && (*descr)[0] != '"')) {
    return Invalid("its elements are structures");
  }
  size_t end = descr->find((*descr)[0], 1);
  if (end == std::string_view::npos) return Invalid("its header is cut short");
  header.descr = std::string(descr->substr(1, end - 1));
  ASYRA_ASSIGN_OR_RETURN(header.shape, ReadShape(*shape));
  return header;
}

// An element type of NumPy: letter and bytes, and what holds its values here.
struct NpyType {
  std::string_view name;
  DType dtype;
};
constexpr NpyType kTypes[] = {
    {"b1", DType::kBool}, {"i1", DType::kI32}, {"i2", DType::kI32},
    {"i4", DType::kI32},  {"i8", DType::kI64}, {"u1", DType::kI32},
    {"u2", DType::kI32},  {"u4", DType::kI64}, {"u8", DType::kI64},
    {"f2", DType::kF16},  {"f4", DType::kF32}, {"f8", DType::kF64},
    {"V2", DType::kBF16},
};

absl::StatusOr<NpyType> TypeOf(const std::string& descr) {
  std::string_view name = descr;
  constexpr std::string_view kByteOrders = "<>|=";
  if (!name.empty() && kByteOrders.find(name[0]) != std::string_view::npos) {
    name.remove_prefix(1);
  }
  for (const NpyType& type : kTypes) {
    if (type.name == name) return type;
  }
  return Invalid("its elements are '{}', known are bools, integers and floats",
                 descr);
}

// One element as an integer of 8 bytes, little endian.
uint64_t Bits(const char* data, size_t size, bool big_endian) {
  char bytes[8] = {};
  std::memcpy(bytes, data, size);
  if (big_endian) std::reverse(bytes, bytes + size);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

// Integers of other sizes than the tensor's, widened.
absl::StatusOr<int64_t> Widened(uint64_t bits, const NpyType& type,
                                size_t size) {
  if (type.name[0] == 'u') {
    if (bits > uint64_t{INT64_MAX}) {
      return Invalid("an element is {}, integers go up to 2^63-1", bits);
    }
    return static_cast<int64_t>(bits);
  }
  int unused = 64 - 8 * static_cast<int>(size);
  return static_cast<int64_t>(bits << unused) >> unused;
}

// Returns where an element of an array by rows is in one by columns.
int64_t ColumnPlace(const Shape& shape, int64_t row_place) {
  int64_t place = 0, stride = NumElements(shape);
  for (size_t d = shape.size(); d-- > 0;) {
    stride /= shape[d];
    place += row_place % shape[d] * stride;
    row_place /= shape[d];
  }
  return place;
}

absl::StatusOr<Tensor> ReadData(const Header& header, std::string_view data) {
  ASYRA_ASSIGN_OR_RETURN(NpyType type, TypeOf(header.descr));
  auto size = static_cast<size_t>(type.name[1] - '0');
  int64_t elements = NumElements(header.shape);
  if (data.size() != static_cast<size_t>(elements) * size) {
    return Invalid("{}{} takes {} bytes, the file has {}", header.descr,
                   ShapeToString(header.shape),
                   static_cast<size_t>(elements) * size, data.size());
  }
  Tensor tensor(type.dtype, header.shape);
  auto own_size = static_cast<size_t>(SizeOf(type.dtype));
  bool big_endian = header.descr[0] == '>';
  if (own_size == size && !big_endian && !header.by_columns &&
      type.name != "u8" && type.name != "b1") {
    if (elements > 0) {
      std::memcpy(tensor.mutable_data(), data.data(), data.size());
    }
    return tensor;
  }
  for (int64_t i = 0; i < elements; ++i) {
    int64_t place = header.by_columns ? ColumnPlace(header.shape, i) : i;
    uint64_t bits = Bits(data.data() + place * size, size, big_endian);
    if (type.dtype == DType::kBool) {
      tensor.SetInt(i, bits != 0);
    } else if (IsInteger(type.dtype)) {
      ASYRA_ASSIGN_OR_RETURN(int64_t value, Widened(bits, type, size));
      tensor.SetInt(i, value);
    } else {
      std::memcpy(tensor.mutable_data() + i * own_size, &bits, own_size);
    }
  }
  return tensor;
}

std::string_view NpyName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kI32:
      return "<i4";
    case DType::kI64:
      return "<i8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kBF16:
      break;
  }
  CheckFailed(__FILE__, __LINE__, "NumPy has no bf16");
}

}  // namespace

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string file, ReadFile(path));
  std::string_view bytes = file;
  absl::StatusOr<Header> header = ReadHeader(&bytes);
  if (!header.ok()) return Annotate(header.status(), path);
  absl::StatusOr<Tensor> tensor = ReadData(*header, bytes);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

std::string NpyHeader(DType dtype, absl::Span<const int64_t> shape) {
  std::string sizes;
  for (int64_t size : shape) sizes += fmt::format("{}, ", size);
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  if (shape.size() == 1) sizes.resize(sizes.size() - 1);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                  NpyName(dtype), sizes);
  // The header ends in a line feed, at a multiple of the alignment.
  auto before = static_cast<int64_t>(kMagic.size()) + 4;
  int64_t end =
      RoundUp(before + static_cast<int64_t>(dict.size()) + 1, kAlignment);
  dict.resize(end - before - 1, ' ');
  dict += '\n';
  auto length = static_cast<uint16_t>(dict.size());
  std::string header(kMagic);
  header += std::string("\x01\x00", 2);
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  return header + dict;
}

}  // namespace asyra
