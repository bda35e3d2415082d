// Files that tools write, checked before anything is computed for them.
#pragma once

#include "CLI/CLI.hpp"

namespace asyra {

// Of an option whose value is a file to write, or "-": its folder has to be
// there and writable, and the file no folder.
CLI::Validator OutputFile();

// Accepts a folder to write files into: it, or else the one it is to be in, has
// to be there and writable.
CLI::Validator OutputFolder();

}  // namespace asyra
