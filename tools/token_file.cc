#include "tools/token_file.h"

#include <algorithm>
#include <cstring>

#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int32_t kMagic = 20240520, kVersion = 1;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

}  // namespace

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  int32_t header[3] = {};
  std::memcpy(header, bytes.data(), std::min(bytes.size(), sizeof(header)));
  TokenFile file;
  if (header[0] != kMagic) {
    for (char c : bytes) file.tokens_.push_back(static_cast<uint8_t>(c));
  } else {
    if (bytes.size() < kHeaderBytes) {
      return Invalid("{}: it ends in the header of a token file", path);
    }
    size_t have = (bytes.size() - kHeaderBytes) / sizeof(uint16_t);
    if (header[1] != kVersion) {
      return Invalid("{}: version {} of a token file, known is {}", path,
                     header[1], kVersion);
    }
    if (header[2] < 0 || static_cast<size_t>(header[2]) > have) {
      return Invalid("{}: the header says {} tokens, there are {}", path,
                     header[2], have);
    }
    file.is_bytes_ = false;
    file.tokens_.resize(header[2]);
    std::memcpy(file.tokens_.data(), bytes.data() + kHeaderBytes,
                file.tokens_.size() * sizeof(uint16_t));
  }
  for (uint16_t token : file.tokens_) {
    file.largest_ = std::max<int64_t>(file.largest_, token);
  }
  return file;
}

absl::StatusOr<TokenFile::Batch> TokenFile::At(int64_t batch, int64_t rows,
                                               int64_t length) const {
  int64_t count = rows * length;
  int64_t batches = (size() - 1) / std::max<int64_t>(1, count);
  if (batches < 1) {
    return Invalid("the data has {} tokens, a step takes {} and one more",
                   size(), count);
  }
  int64_t begin = batch % batches * count;
  std::vector<int64_t> tokens(tokens_.begin() + begin,
                              tokens_.begin() + begin + count);
  std::vector<int64_t> labels(tokens_.begin() + begin + 1,
                              tokens_.begin() + begin + 1 + count);
  return Batch{Tensor::FromInts(DType::kI64, {rows, length}, tokens),
               Tensor::FromInts(DType::kI64, {rows, length}, labels)};
}

}  // namespace asyra
