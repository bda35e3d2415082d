// Names in an option of a pass.
#include "passes/analysis/name_list.h"

#include "gmock/gmock.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NameList, IsReadWithoutSpacesAndEmptyNames) {
  EXPECT_THAT(NamesIn(""), IsEmpty());
  EXPECT_THAT(NamesIn(" ; "), IsEmpty());
  EXPECT_THAT(NamesIn("norm"), ElementsAre("norm"));
  EXPECT_THAT(NamesIn("layer*.swiglu; norm;a;; b c "),
              ElementsAre("layer*.swiglu", "norm", "a", "b c"));
}

TEST(NameList, IsWrittenAndReadAgain) {
  EXPECT_EQ(TextOfNames({}), "");
  std::vector<std::string> names = {"layer0.norm#5f.0", "layer*.y"};
  EXPECT_EQ(TextOfNames(names), "layer0.norm#5f.0; layer*.y");
  EXPECT_EQ(NamesIn(TextOfNames(names)), names);
}

}  // namespace
}  // namespace asyra
