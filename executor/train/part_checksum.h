// Checksums of tensors that several ranks write: each rank computes the
// checksum of its parts, and they add up to the checksum of the whole.
#pragma once

#include <cstdint>
#include <string_view>

namespace asyra {

// The CRC-32 of zlib, gzip and PNG: a register that is shifted by a polynomial
// for each bit, and so is linear but for its first and last value. With zeros
// for both, the checksum of a tensor is the XOR of those of its parts, each
// with zeros in place of the others.
class PartChecksum {
 public:
  // `bytes` are at `offset` of the tensor, behind all that was added before.
  void Add(int64_t offset, std::string_view bytes);
  // Returns the checksum for a tensor of `bytes`, with zeros in place of
  // bytes that were not added.
  uint32_t Finish(int64_t bytes);

 private:
  void SkipTo(int64_t offset);

  uint32_t register_ = 0;
  int64_t at_ = 0;  // the bytes that it has taken
};

// Returns the CRC-32 of a tensor of `bytes`, from the XOR of its parts' Finish.
uint32_t WholeChecksum(uint32_t parts, int64_t bytes);

// Returns the CRC-32 of all of it.
uint32_t ChecksumOf(std::string_view bytes);

}  // namespace asyra
