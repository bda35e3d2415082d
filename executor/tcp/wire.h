// Messages of a TCP world: kinds, sizes, and numbers in them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace asyra {

enum Kind : uint32_t {
  kChallenge,  // from rank 0, to whoever connects: handshake.h
  kHello,      // to rank 0: handshake.h
  kWelcome,    // from rank 0: handshake.h
  kRefuse,     // from rank 0: why the rank may not join
  kGather,     // to rank 0: what the rank brings to an exchange
  kAll,        // from rank 0: what all have brought
  kStep,       // to rank 0: the rank begins a step
  kAbort,      // both ways: the failed rank and the cause
  kBye,        // the rank is done
  kData,       // both ways: from, to, tag, and the data of a collective
  kAlive,      // both ways: this process is not stopped
  kWho,        // to rank 0: this rank waits in vain, is some process stopped?
};

inline constexpr size_t kNonceBytes = 32, kMacBytes = 32;
inline constexpr size_t kHelloBytes = 16 + kNonceBytes + kMacBytes;
inline constexpr size_t kMostTextBytes = 16 << 10;  // of a cause

// Returns the most that is due of a kind; of an unknown one, nothing.
inline uint64_t MostBytes(uint32_t kind) {
  switch (kind) {
    case kChallenge:
      return kNonceBytes;
    case kHello:
      return kHelloBytes;
    case kWelcome:
      return kMacBytes;
    case kRefuse:
    case kAbort:
      return sizeof(int64_t) + kMostTextBytes;
    case kGather:
      return uint64_t{1} << 32;
    case kAll:
    case kData:
      return uint64_t{1} << 40;
    default:
      return 0;
  }
}

inline void Append(int64_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Takes a number from the front; 0 where there is none.
inline int64_t TakeNumber(std::string_view* bytes) {
  int64_t number = 0;
  if (bytes->size() < sizeof(number)) return 0;
  std::memcpy(&number, bytes->data(), sizeof(number));
  bytes->remove_prefix(sizeof(number));
  return number;
}

}  // namespace asyra
