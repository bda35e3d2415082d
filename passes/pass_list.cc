#include "passes/pass_list.h"

#include <utility>
#include <vector>

#include "passes/pass_records.h"

namespace asyra {
namespace {

const std::vector<PassRecord>& Records() {
  static const auto* records = [] {
    auto* all = new std::vector<PassRecord>;
    for (auto* part : {GlobalPasses, LocalPasses, SchedulePasses}) {
      for (PassRecord& pass : part()) all->push_back(std::move(pass));
    }
    return all;
  }();
  return *records;
}

}  // namespace

absl::Span<const PassRecord> AllPasses() { return Records(); }

const PassRecord* FindPass(std::string_view name) {
  for (const PassRecord& pass : Records()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace asyra
