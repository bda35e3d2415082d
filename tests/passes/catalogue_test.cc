// The catalogue in passes/README.md is what the records say.
#include "passes/catalogue.h"

#include <cstdlib>

#include "gtest/gtest.h"
#include "ir/support/file.h"

namespace asyra {
namespace {

TEST(Catalogue, ReadmeIsUpToDate) {
  const std::string path = ASYRA_SOURCE_DIR "/passes/README.md";
  absl::StatusOr<std::string> text = ReadFile(path);
  ASSERT_TRUE(text.ok()) << text.status();
  constexpr std::string_view kBegin = "<!-- catalogue -->\n";
  size_t begin = text->find(kBegin);
  size_t end = text->find("<!-- end of catalogue -->");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  begin += kBegin.size();
  std::string catalogue = PassCatalogue();
  if (std::getenv("ASYRA_UPDATE_FIXTURES") != nullptr) {
    text->replace(begin, end - begin, catalogue);
    ASSERT_EQ(WriteFileAtomically(path, {*text}), absl::OkStatus());
    return;
  }
  EXPECT_EQ(text->substr(begin, end - begin), catalogue)
      << "run the tests with ASYRA_UPDATE_FIXTURES=1";
}

}  // namespace
}  // namespace asyra
