// Proof that a rank belongs to the job. Rank 0 sends a nonce to whoever
// connects; the hello is the rank, the size of its world, a nonce of its own,
// and HMAC-SHA256 over all of them with the secret of the job; rank 0 answers
// with an HMAC too. The secret itself is never sent, and an answer that was
// overheard is of no use. What is sent later is neither signed nor encrypted:
// who can change packets on the way is not kept out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace asyra {

struct Hello {
  int64_t rank = 0, size = 0;
  std::string nonce;
};

// Bytes that nobody guesses.
std::string MakeNonce();

// Returns the bytes of a message kHello, in answer to a challenge.
std::string SignHello(const Hello& hello, std::string_view secret,
                      std::string_view challenge);
// None if it was made with another secret or for another challenge.
std::optional<Hello> ReadHello(std::string_view bytes, std::string_view secret,
                               std::string_view challenge);
// Returns the bytes of a message kWelcome.
std::string SignWelcome(const Hello& hello, std::string_view secret,
                        std::string_view challenge);

}  // namespace asyra
