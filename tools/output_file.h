// Files that tools write, checked before anything is computed for them.
#pragma once

#include "CLI/CLI.hpp"

namespace asyra {

// Accepts a file to write, or "-": its folder has to exist and be writable, and
// the file be no folder.
CLI::Validator OutputFile();

// The same of a file that is replaced as a whole: no "-", and no device or
// pipe.
CLI::Validator ReplacedFile();

// Accepts a folder to write files into: it, or else the one it is to be in, has
// to exist and be writable.
CLI::Validator OutputFolder();

}  // namespace asyra
