#include "passes/catalogue.h"

#include "fmt/format.h"
#include "ir/printer.h"
#include "passes/pass_list.h"

namespace asyra {

std::string PassCatalogue() {
  std::string text =
      "| pass | stages | what | options |\n| --- | --- | --- | --- |\n";
  for (const PassRecord& pass : AllPasses()) {
    std::string options;
    for (const AttrDef& option : pass.options) {
      if (!options.empty()) options += "; ";
      options += fmt::format("`{}` {}", option.name, option.doc);
      if (option.default_value.has_value()) {
        options += fmt::format(" ({})", ToString(*option.default_value, {}));
      }
    }
    std::string stages =
        pass.from_stage == pass.to_stage
            ? std::string(ToString(pass.from_stage))
            : fmt::format("{} to {}", ToString(pass.from_stage),
                          ToString(pass.to_stage));
    text += fmt::format("| `{}` | {} | {} | {} |\n", pass.name, stages,
                        pass.summary, options);
  }
  return text;
}

}  // namespace asyra
