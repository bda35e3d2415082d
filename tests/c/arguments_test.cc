// Every function of asyra.h with each pointer that must not be NULL as NULL, in
// turn, and with counts, numbers and sizes that nobody should give.
#include <climits>
#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "c/asyra.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

constexpr char kProgram[] = R"(asyra 1 scheduled
program @f(%x: f32[4], %w: f32[4] state) -> (f32[4], f32[4]) {
  %y = add(%x, %w) on compute : f32[4]
  %next = add(%w, %w) on compute : f32[4]
  return %y, %next alias %w
}
)";
constexpr int64_t kBytes = 16;

void ExpectInvalid(asyra_status code, const std::string& message,
                   const std::string& where) {
  EXPECT_EQ(code, ASYRA_INVALID_ARGUMENT) << where;
  EXPECT_THAT(asyra_last_error(), HasSubstr(message)) << where;
}

class Arguments : public testing::Test {
 protected:
  Arguments() {
    std::ofstream(path("f.asyra")) << kProgram;
    EXPECT_EQ(asyra_program_load(path("f.asyra").c_str(), nullptr, &program_),
              ASYRA_OK)
        << asyra_last_error();
    EXPECT_EQ(asyra_rank_connect("cpu", &rank_), ASYRA_OK);
    EXPECT_EQ(asyra_states_create(rank_, &states_), ASYRA_OK);
    EXPECT_EQ(asyra_executor_create(rank_, program_, states_, &executor_),
              ASYRA_OK)
        << asyra_last_error();
  }
  ~Arguments() override {
    asyra_trainer_free(trainer_);
    asyra_executor_free(executor_);
    asyra_states_free(states_);
    asyra_rank_free(rank_);
    asyra_program_free(program_);
  }

  std::string path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }

  asyra_trainer* trainer() {
    if (trainer_ != nullptr) return trainer_;
    training_ = path("training");
    ASYRA_CHECK_OK(WriteTrainingFolder(SmallTraining(""), training_));
    EXPECT_EQ(
        asyra_trainer_create(rank_, training_.c_str(), nullptr, &trainer_),
        ASYRA_OK)
        << asyra_last_error();
    return trainer_;
  }

  ScratchFolder folder_{"c_arguments"};
  std::string training_;
  asyra_program* program_ = nullptr;
  asyra_rank* rank_ = nullptr;
  asyra_states* states_ = nullptr;
  asyra_executor* executor_ = nullptr;
  asyra_trainer* trainer_ = nullptr;
};

// A function as a call in which pointer number `null` is NULL; the names are
// those of all that must not be.
struct Function {
  const char* name;
  std::vector<const char*> needed;
  std::function<asyra_status(int null)> call;
};

#define OR_NULL(index, pointer) (null == (index) ? nullptr : (pointer))

// Functions that return a number say -1.
asyra_status CodeOf(int64_t number) {
  return number == -1 ? ASYRA_INVALID_ARGUMENT : ASYRA_OK;
}

asyra_status DoNothing(asyra_rank*, void*) { return ASYRA_OK; }

TEST_F(Arguments, ThatAreNullAreNamed) {
  trainer();
  const std::string file = path("f.asyra"), out = path("out.asyra");
  const std::string run = path("run"), weights = path("out.safetensors");
  std::string text = path("text");
  std::ofstream(text) << std::string(4000, 'a');
  const char* files[] = {text.c_str()};
  const char* f = file.c_str();
  asyra_program* loaded = nullptr;
  asyra_program* program = nullptr;
  asyra_rank* rank = nullptr;
  asyra_states* states = nullptr;
  asyra_executor* executor = nullptr;
  asyra_trainer* trainer = nullptr;
  asyra_simulation simulated = {.size = sizeof(simulated)};
  asyra_tensor_info info = {.size = sizeof(info)};
  asyra_metrics metrics = {.size = sizeof(metrics)};
  char value[kBytes] = {};
  void* data = nullptr;
  double loss = 0;
  const Function functions[] = {
      {"program_load",
       {"model", "program"},
       [&](int null) {
         return asyra_program_load(OR_NULL(0, f), nullptr, OR_NULL(1, &loaded));
       }},
      {"program_compile",
       {"model", "machine", "program"},
       [&](int null) {
         return asyra_program_compile(OR_NULL(0, program_), nullptr,
                                      OR_NULL(1, "h100x8"), 1,
                                      OR_NULL(2, &program));
       }},
      {"program_save",
       {"program", "path"},
       [&](int null) {
         return asyra_program_save(OR_NULL(0, program_),
                                   OR_NULL(1, out.c_str()));
       }},
      {"program_simulate",
       {"program", "machine", "result"},
       [&](int null) {
         return asyra_program_simulate(OR_NULL(0, program_),
                                       OR_NULL(1, "h100x8"),
                                       OR_NULL(2, &simulated));
       }},
      {"program_ranks",
       {"program"},
       [&](int null) {
         return CodeOf(asyra_program_ranks(OR_NULL(0, program_)));
       }},
      {"run_ranks",
       {"device", "body"},
       [&](int null) {
         return asyra_run_ranks(OR_NULL(0, "cpu"), 1, OR_NULL(1, DoNothing),
                                nullptr);
       }},
      {"rank_connect",
       {"device", "rank"},
       [&](int null) {
         return asyra_rank_connect(OR_NULL(0, "cpu"), OR_NULL(1, &rank));
       }},
      {"rank_number",
       {"rank"},
       [&](int null) { return CodeOf(asyra_rank_number(OR_NULL(0, rank_))); }},
      {"rank_count",
       {"rank"},
       [&](int null) { return CodeOf(asyra_rank_count(OR_NULL(0, rank_))); }},
      {"states_create",
       {"rank", "states"},
       [&](int null) {
         return asyra_states_create(OR_NULL(0, rank_), OR_NULL(1, &states));
       }},
      {"states_get",
       {"states", "name", "to"},
       [&](int null) {
         return asyra_states_get(OR_NULL(0, states_), OR_NULL(1, "w"),
                                 OR_NULL(2, value), kBytes);
       }},
      {"states_set",
       {"states", "name", "from"},
       [&](int null) {
         return asyra_states_set(OR_NULL(0, states_), OR_NULL(1, "w"),
                                 OR_NULL(2, value), kBytes);
       }},
      {"executor_create",
       {"rank", "program", "executor"},
       [&](int null) {
         return asyra_executor_create(OR_NULL(0, rank_), OR_NULL(1, program_),
                                      nullptr, OR_NULL(2, &executor));
       }},
      {"executor_input",
       {"executor", "info"},
       [&](int null) {
         return asyra_executor_input(OR_NULL(0, executor_), 0,
                                     OR_NULL(1, &info));
       }},
      {"executor_output",
       {"executor", "info"},
       [&](int null) {
         return asyra_executor_output(OR_NULL(0, executor_), 0,
                                      OR_NULL(1, &info));
       }},
      {"executor_step",
       {"executor", "input"},
       [&](int null) {
         const void* inputs[] = {value};
         return asyra_executor_step(OR_NULL(0, executor_), OR_NULL(1, inputs));
       }},
      {"executor_enqueue",
       {"executor", "input"},
       [&](int null) {
         void* inputs[] = {value};
         return asyra_executor_enqueue(OR_NULL(0, executor_),
                                       OR_NULL(1, inputs), nullptr, nullptr);
       }},
      {"executor_await",
       {"executor"},
       [&](int null) {
         return asyra_executor_await(OR_NULL(0, executor_), 0);
       }},
      {"executor_input_data",
       {"executor", "data"},
       [&](int null) {
         return asyra_executor_input_data(OR_NULL(0, executor_), 0,
                                          OR_NULL(1, &data));
       }},
      {"executor_output_data",
       {"executor", "data"},
       [&](int null) {
         return asyra_executor_output_data(OR_NULL(0, executor_), 0,
                                           OR_NULL(1, &data));
       }},
      {"executor_read_output",
       {"executor", "to"},
       [&](int null) {
         return asyra_executor_read_output(OR_NULL(0, executor_), 0,
                                           OR_NULL(1, value), kBytes);
       }},
      {"executor_get_state",
       {"executor", "name", "to"},
       [&](int null) {
         return asyra_executor_get_state(OR_NULL(0, executor_), OR_NULL(1, "w"),
                                         OR_NULL(2, value), kBytes);
       }},
      {"executor_set_state",
       {"executor", "name", "from"},
       [&](int null) {
         return asyra_executor_set_state(OR_NULL(0, executor_), OR_NULL(1, "w"),
                                         OR_NULL(2, value), kBytes);
       }},
      {"trainer_create",
       {"rank", "folder", "trainer"},
       [&](int null) {
         return asyra_trainer_create(OR_NULL(0, rank_),
                                     OR_NULL(1, training_.c_str()), nullptr,
                                     OR_NULL(2, &trainer));
       }},
      {"trainer_input",
       {"trainer", "info"},
       [&](int null) {
         return asyra_trainer_input(OR_NULL(0, trainer_), 0, OR_NULL(1, &info));
       }},
      {"trainer_step",
       {"trainer", "input"},
       [&](int null) {
         std::vector<int64_t> ids(64, 1);
         const void* batch[] = {ids.data(), ids.data()};
         return asyra_trainer_step(OR_NULL(0, trainer_), OR_NULL(1, batch),
                                   0.01);
       }},
      {"trainer_open_tokens",
       {"trainer", "files"},
       [&](int null) {
         return asyra_trainer_open_tokens(OR_NULL(0, trainer_),
                                          OR_NULL(1, files), 1);
       }},
      {"trainer_step_on_tokens",
       {"trainer"},
       [&](int null) {
         return asyra_trainer_step_on_tokens(OR_NULL(0, trainer_), 0.01);
       }},
      {"trainer_steps",
       {"trainer"},
       [&](int null) {
         return CodeOf(asyra_trainer_steps(OR_NULL(0, trainer_)));
       }},
      {"trainer_metrics",
       {"trainer", "metrics"},
       [&](int null) {
         return asyra_trainer_metrics(OR_NULL(0, trainer_),
                                      OR_NULL(1, &metrics));
       }},
      {"trainer_evaluate",
       {"trainer", "loss", "input"},
       [&](int null) {
         std::vector<int64_t> ids(64, 1);
         const void* batch[] = {ids.data(), ids.data()};
         return asyra_trainer_evaluate(OR_NULL(0, trainer_), OR_NULL(2, batch),
                                       OR_NULL(1, &loss));
       }},
      {"trainer_save",
       {"trainer", "directory"},
       [&](int null) {
         return asyra_trainer_save(OR_NULL(0, trainer_),
                                   OR_NULL(1, run.c_str()));
       }},
      {"trainer_finish",
       {"trainer"},
       [&](int null) { return asyra_trainer_finish(OR_NULL(0, trainer_)); }},
      {"trainer_export",
       {"trainer", "path"},
       [&](int null) {
         return asyra_trainer_export(OR_NULL(0, trainer_),
                                     OR_NULL(1, weights.c_str()));
       }},
      // Takes gradients that only a step would end; last.
      {"trainer_accumulate",
       {"trainer"},
       [&](int null) {
         std::vector<int64_t> ids(64, 1);
         const void* batch[] = {ids.data(), ids.data()};
         asyra_status code =
             asyra_trainer_accumulate(OR_NULL(0, trainer_), batch);
         return null >= 0 ? code : ASYRA_OK;
       }},
  };
  std::set<std::string> called = {"version", "last_error"};
  for (const Function& function : functions) {
    called.insert(function.name);
    for (size_t i = 0; i < function.needed.size(); ++i) {
      ExpectInvalid(function.call(static_cast<int>(i)), function.needed[i],
                    function.name);
      EXPECT_THAT(asyra_last_error(), HasSubstr("NULL")) << function.name;
    }
    EXPECT_EQ(function.call(-1), ASYRA_OK)
        << function.name << ": " << asyra_last_error();
  }
  for (const char* type :
       {"program", "rank", "states", "executor", "trainer"}) {
    called.insert(std::string(type) + "_free");
  }
  asyra_program_free(nullptr);
  asyra_rank_free(nullptr);
  asyra_states_free(nullptr);
  asyra_executor_free(nullptr);
  asyra_trainer_free(nullptr);
  asyra_program_free(loaded);
  asyra_program_free(program);
  asyra_rank_free(rank);
  asyra_states_free(states);
  asyra_executor_free(executor);
  asyra_trainer_free(trainer);

  // None is missing here.
  std::string header = ASYRA_VALUE(ReadFile(ASYRA_SOURCE_DIR "/c/asyra.h"));
  for (size_t at = 0; (at = header.find(" asyra_", at)) != std::string::npos;) {
    at += 7;
    size_t end = header.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
    if (header[end] != '(') continue;
    EXPECT_EQ(called.count(header.substr(at, end - at)), 1)
        << header.substr(at, end - at);
  }
}

TEST_F(Arguments, CountsAndNumbersAreChecked) {
  for (int64_t ranks :
       {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{4097}}) {
    ExpectInvalid(asyra_run_ranks("cpu", ranks, DoNothing, nullptr),
                  "ranks is " + std::to_string(ranks), "run_ranks");
  }
  asyra_program* program = nullptr;
  for (int32_t steps : {-1, INT32_MIN, INT32_MAX}) {
    ExpectInvalid(
        asyra_program_compile(program_, nullptr, "h100x8", steps, &program),
        "search_steps is " + std::to_string(steps), "compile");
  }
  for (const char* mesh : {"tp", "tp=", "tp=0", "tp=-1", "=2", ",", "tp=2,tp=2",
                           "tp=9223372036854775807", "tp=3000000000"}) {
    EXPECT_NE(asyra_program_compile(program_, mesh, "h100x8", 1, &program),
              ASYRA_OK)
        << mesh;
    EXPECT_EQ(program, nullptr);
  }
  for (const char* dims : {"layers=-1", "layers=9223372036854775808",
                           "batch=1,batch=2", "nothing=1", "batch"}) {
    ExpectInvalid(asyra_program_load("gpt3-tiny", dims, &program), "", dims);
  }
  asyra_tensor_info info = {.size = sizeof(info)};
  void* data = nullptr;
  char value[kBytes] = {};
  for (int32_t index : {-1, 2, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(asyra_executor_input(executor_, index, &info),
              ASYRA_OUT_OF_RANGE);
    EXPECT_EQ(asyra_executor_output(executor_, index, &info),
              ASYRA_OUT_OF_RANGE);
    EXPECT_EQ(asyra_executor_input_data(executor_, index, &data),
              ASYRA_OUT_OF_RANGE);
    EXPECT_EQ(asyra_executor_output_data(executor_, index, &data),
              ASYRA_OUT_OF_RANGE);
    EXPECT_EQ(asyra_executor_read_output(executor_, index, value, kBytes),
              ASYRA_OUT_OF_RANGE);
    EXPECT_EQ(asyra_trainer_input(trainer(), index, &info), ASYRA_OUT_OF_RANGE);
  }
  for (int64_t bytes : {int64_t{0}, int64_t{-1}, kBytes - 1, kBytes + 1,
                        INT64_MIN, INT64_MAX}) {
    EXPECT_NE(asyra_executor_get_state(executor_, "w", value, bytes), ASYRA_OK);
    EXPECT_NE(asyra_executor_set_state(executor_, "w", value, bytes), ASYRA_OK);
    EXPECT_NE(asyra_states_get(states_, "w", value, bytes), ASYRA_OK);
    EXPECT_NE(asyra_states_set(states_, "w", value, bytes), ASYRA_OK);
    EXPECT_NE(asyra_executor_read_output(executor_, 0, value, bytes), ASYRA_OK);
  }
  for (int64_t number : {int64_t{-1}, int64_t{0}, INT64_MIN, INT64_MAX}) {
    EXPECT_NE(asyra_executor_await(executor_, number), ASYRA_OK) << number;
  }
}

TEST_F(Arguments, OfTrainersAreChecked) {
  const char* files[] = {"none", nullptr};
  for (int32_t count : {0, -1, INT32_MIN, INT32_MAX, 65537}) {
    ExpectInvalid(asyra_trainer_open_tokens(trainer(), files, count),
                  "count is " + std::to_string(count), "open_tokens");
  }
  ExpectInvalid(asyra_trainer_open_tokens(trainer(), files, 2),
                "files[1] is NULL", "open_tokens");
  std::vector<int64_t> ids(64, 1);
  const void* half[] = {ids.data(), nullptr};
  const void* batch[] = {ids.data(), ids.data()};
  ExpectInvalid(asyra_trainer_step(trainer(), half, 0.1), "is NULL", "step");
  for (double rate : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_NE(asyra_trainer_step(trainer(), batch, rate), ASYRA_OK) << rate;
  }
  asyra_trainer* other = nullptr;
  for (size_t size : {size_t{0}, sizeof(size_t)}) {
    asyra_trainer_options options = {.size = size};
    ExpectInvalid(
        asyra_trainer_create(rank_, training_.c_str(), &options, &other),
        "sizeof(asyra_trainer_options)", "create");
  }
  asyra_trainer_options options = {.size = sizeof(options), .keep = -1};
  ExpectInvalid(
      asyra_trainer_create(rank_, training_.c_str(), &options, &other),
      "keep is -1", "create");
}

// Documents are what the folder was compiled for.
TEST_F(Arguments, DocumentsOfOtherFoldersAreRefused) {
  trainer();  // makes the folder
  const std::string text = path("text");
  ASYRA_CHECK_OK(WriteFileAtomically(text, {std::string(4096, 'a')}));
  const int64_t end = 46;
  asyra_trainer_options options = {
      .size = sizeof(options), .random_weights = 1, .document_end = &end};
  asyra_trainer* other = nullptr;
  ASSERT_EQ(asyra_trainer_create(rank_, training_.c_str(), &options, &other),
            ASYRA_OK)
      << asyra_last_error();
  const char* files[] = {text.c_str()};
  ExpectInvalid(asyra_trainer_open_tokens(other, files, 1),
                "documents end with token 46", "open_tokens");
  asyra_trainer_free(other);
}

// An older header has fewer fields: what lies behind them is not written.
TEST_F(Arguments, StructsAreFilledAsFarAsTheyReach) {
  asyra_simulation all = {.size = sizeof(all)};
  ASSERT_EQ(asyra_program_simulate(program_, "h100x8", &all), ASYRA_OK)
      << asyra_last_error();
  EXPECT_GT(all.makespan_us, 0);
  asyra_simulation some = {.size = offsetof(asyra_simulation, lower_bound_us),
                           .lower_bound_us = -7,
                           .peak_bytes = -7};
  ASSERT_EQ(asyra_program_simulate(program_, "h100x8", &some), ASYRA_OK);
  EXPECT_EQ(some.makespan_us, all.makespan_us);
  EXPECT_EQ(some.size, offsetof(asyra_simulation, lower_bound_us));
  EXPECT_EQ(some.lower_bound_us, -7);
  EXPECT_EQ(some.peak_bytes, -7);
  // A newer one has more, which this library does not know.
  struct {
    asyra_simulation known;
    int64_t more;
  } newer = {{.size = sizeof(newer)}, -7};
  ASSERT_EQ(asyra_program_simulate(program_, "h100x8", &newer.known), ASYRA_OK);
  EXPECT_EQ(newer.known.peak_bytes, all.peak_bytes);
  EXPECT_EQ(newer.more, -7);
  all.size = 0;
  ExpectInvalid(asyra_program_simulate(program_, "h100x8", &all),
                "size is 0, it should be sizeof(asyra_simulation)", "simulate");
  asyra_tensor_info info = {};
  ExpectInvalid(asyra_executor_input(executor_, 0, &info),
                "sizeof(asyra_tensor_info)", "input");
  asyra_metrics metrics = {};
  std::vector<int64_t> ids(64, 1);
  const void* batch[] = {ids.data(), ids.data()};
  ASSERT_EQ(asyra_trainer_step(trainer(), batch, 0.1), ASYRA_OK);
  ExpectInvalid(asyra_trainer_metrics(trainer(), &metrics),
                "sizeof(asyra_metrics)", "metrics");
}

// A rank of asyra_run_ranks is not the caller's to free.
TEST_F(Arguments, RanksAreFreedByTheirOwner) {
  auto body = [](asyra_rank* rank, void*) {
    asyra_rank_free(rank);
    return asyra_rank_count(rank) == 2 ? ASYRA_OK : ASYRA_INTERNAL;
  };
  EXPECT_EQ(asyra_run_ranks("cpu", 2, body, nullptr), ASYRA_OK);
}

}  // namespace
}  // namespace asyra
