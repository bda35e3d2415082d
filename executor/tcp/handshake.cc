#include "executor/tcp/handshake.h"

#include <sys/random.h>

#include "executor/tcp/sha256.h"
#include "executor/tcp/wire.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

std::string Facts(const Hello& hello) {
  std::string bytes;
  Append(hello.rank, &bytes);
  Append(hello.size, &bytes);
  return bytes + hello.nonce;
}

std::string Sign(std::string_view what, const Hello& hello,
                 std::string_view secret, std::string_view challenge) {
  std::string text(what);
  text += challenge;
  return HmacSha256(secret, text + Facts(hello));
}

}  // namespace

std::string MakeNonce() {
  std::string nonce(kNonceBytes, '\0');
  ASYRA_CHECK(getrandom(nonce.data(), nonce.size(), 0) ==
              static_cast<ssize_t>(nonce.size()));
  return nonce;
}

std::string SignHello(const Hello& hello, std::string_view secret,
                      std::string_view challenge) {
  return Facts(hello) + Sign("asyra hello", hello, secret, challenge);
}

std::optional<Hello> ReadHello(std::string_view bytes, std::string_view secret,
                               std::string_view challenge) {
  if (bytes.size() != kHelloBytes) return std::nullopt;
  Hello hello;
  hello.rank = TakeNumber(&bytes);
  hello.size = TakeNumber(&bytes);
  hello.nonce = bytes.substr(0, kNonceBytes);
  if (!SameSecret(bytes.substr(kNonceBytes),
                  Sign("asyra hello", hello, secret, challenge))) {
    return std::nullopt;
  }
  return hello;
}

std::string SignWelcome(const Hello& hello, std::string_view secret,
                        std::string_view challenge) {
  return Sign("asyra welcome", hello, secret, challenge);
}

}  // namespace asyra
