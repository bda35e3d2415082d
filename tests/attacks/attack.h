// Runs hostile inputs, each in a process of its own, which may fail and may not
// end otherwise: by a signal, by abort or by taking too long.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace asyra {

// Inputs of each kind: $ASYRA_ATTACKS, else `otherwise`.
int64_t Attacks(int64_t otherwise);

// A file that was good.
struct GoodFile {
  std::string path, bytes;
};
// Files below `folder` of such a suffix and at most so many bytes, sorted.
std::vector<GoodFile> FilesBelow(const std::string& folder,
                                 const std::string& suffix, int64_t most_bytes);

// Outcomes of the inputs of a kind.
struct Outcome {
  int64_t taken = 0, refused = 0, crashed = 0, hung = 0;
};

// Damages one of `files` with each of `count` seeds, writes it to `path` and
// calls `use`, in another process with bounded memory and time: whether the
// file was taken. Prints the counts; crashes and hangs fail the test, and name
// seed and file.
Outcome Attack(const std::string& kind, const std::vector<GoodFile>& files,
               int64_t count, const std::string& path,
               const std::function<bool()>& use);

}  // namespace asyra
