// A file that gets a line now and then, for as long as a run takes. A run goes
// on where the disk is full: what is missing is an error at its end.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace asyra {

class LogFile {
 public:
  LogFile() = default;
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Opens it to append; the path may be a stream. Error: the system's; of a
  // pipe, that nobody reads it.
  absl::Status Open(const std::string& path);
  bool is_open() const { return fd_ >= 0; }

  // Appends a line and its end. The first that cannot be written is warned of
  // on standard error; a file keeps no half of one.
  void Write(std::string line);

  // Error: lines are missing, how many of all.
  absl::Status Check() const;

 private:
  std::string path_;
  int fd_ = -1;
  int error_ = 0;  // the system's first
  int64_t lines_ = 0, missing_ = 0;
};

}  // namespace asyra
