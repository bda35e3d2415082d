// Random scheduled programs: computation on several streams, collectives that
// are waited for at some later point. The executor must give what the
// interpreter gives, whatever the order in which streams happen to run.
#include "tests/executor/as_interpreted.h"
#include "tests/executor/runnable.h"

namespace asyra {
namespace {

class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, GiveWhatTheInterpreterGives) {
  ExpectSameAsInterpreted(RunnableProgram(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0, 24));

}  // namespace
}  // namespace asyra
