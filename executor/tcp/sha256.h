// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for the hello of ranks. Written
// here because no library that is linked has them: OpenSSL would become a
// dependency of every user of the installed executor, for one hash of a hundred
// bytes.
#pragma once

#include <string>
#include <string_view>

namespace asyra {

// 32 bytes.
std::string Sha256(std::string_view bytes);
std::string HmacSha256(std::string_view key, std::string_view bytes);

// Takes as long wherever they differ.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace asyra
