#include "executor/train/part_checksum.h"

#include <zlib.h>

namespace asyra {
namespace {

constexpr uint32_t kOnes = 0xffffffff;

// zlib's functions begin and end with all ones.
uint32_t Take(uint32_t before, std::string_view bytes) {
  if (bytes.empty()) return before;  // zlib takes a null pointer as a reset
  return kOnes ^
         static_cast<uint32_t>(crc32_z(
             kOnes ^ before, reinterpret_cast<const Bytef*>(bytes.data()),
             bytes.size()));
}

uint32_t TakeZeros(uint32_t before, int64_t count) {
  return static_cast<uint32_t>(crc32_combine(before, /*crc2=*/0, count));
}

}  // namespace

void PartChecksum::SkipTo(int64_t offset) {
  if (offset > at_ && register_ != 0) {
    register_ = TakeZeros(register_, offset - at_);
  }
  at_ = offset;
}

void PartChecksum::Add(int64_t offset, std::string_view bytes) {
  SkipTo(offset);
  register_ = Take(register_, bytes);
  at_ += static_cast<int64_t>(bytes.size());
}

uint32_t PartChecksum::Finish(int64_t bytes) {
  SkipTo(bytes);
  return register_;
}

uint32_t WholeChecksum(uint32_t parts, int64_t bytes) {
  return kOnes ^ TakeZeros(kOnes, bytes) ^ parts;
}

uint32_t ChecksumOf(std::string_view bytes) {
  return kOnes ^ Take(kOnes, bytes);
}

}  // namespace asyra
