// Files that tools write, checked before anything is computed for them.
#pragma once

#include "CLI/CLI.hpp"

namespace asyra {

// Of an option whose value is a file to write, or "-": its folder has to be
// there and writable, and the file no folder.
CLI::Validator OutputFile();

// The same of a file that is replaced as a whole: no "-", and no device or
// pipe.
CLI::Validator ReplacedFile();

// Accepts a folder to write files into: it, or else the one it is to be in, has
// to be there and writable.
CLI::Validator OutputFolder();

}  // namespace asyra
