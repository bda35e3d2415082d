/* The C interface: compiles a model for two devices, simulates it, runs it on
 * two ranks, and trains a folder of asyra-opt --train on its ranks.
 *
 * Usage: c_api MODEL.onnx TRAINING TEXT CHECKPOINTS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asyra.h"

#define CHECK(call)              \
  do {                           \
    asyra_status code = (call);  \
    if (code != ASYRA_OK) {      \
      return code;               \
    }                            \
  } while (0)

/* Fails with the message that is expected. */
#define EXPECT_ERROR(call, code, text)                               \
  do {                                                               \
    if ((call) != (code) || !strstr(asyra_last_error(), (text))) {   \
      printf("'%s' is not '%s'\n", asyra_last_error(), (text));      \
      exit(1);                                                       \
    }                                                                \
  } while (0)

static asyra_status run_model(asyra_rank* rank, void* data) {
  const asyra_program* program = data;
  asyra_states* states = NULL;
  asyra_executor* executor = NULL;
  CHECK(asyra_states_create(rank, &states));
  CHECK(asyra_executor_create(rank, program, states, &executor));
  const void* inputs[16];
  void* buffers[16];
  int32_t count = 0;
  asyra_tensor_info info = {.size = sizeof(info)};
  while (asyra_executor_input(executor, count, &info) == ASYRA_OK) {
    buffers[count] = calloc(1, info.bytes);
    inputs[count] = buffers[count];
    ++count;
  }
  CHECK(asyra_executor_step(executor, inputs));
  CHECK(asyra_executor_output(executor, 0, &info));
  float* output = malloc(info.bytes);
  CHECK(asyra_executor_read_output(executor, 0, output, info.bytes));
  if (asyra_rank_number(rank) == 0) {
    printf("%s %.6f\n", info.name, output[0]);
    EXPECT_ERROR(asyra_executor_read_output(executor, 0, output, 1),
                 ASYRA_INVALID_ARGUMENT, "room for 1 is given");
    EXPECT_ERROR(asyra_executor_output(executor, 9, &info), ASYRA_OUT_OF_RANGE,
                 "output 9 of 1");
    EXPECT_ERROR(asyra_states_get(states, "none", output, 4), ASYRA_NOT_FOUND,
                 "there is no state %none");
  }
  /* The same where a step reads its inputs. */
  void* places[16];
  int64_t number = 0;
  for (int32_t i = 0; i < count; ++i) {
    CHECK(asyra_executor_input_data(executor, i, &places[i]));
  }
  CHECK(asyra_executor_enqueue(executor, places, NULL, &number));
  CHECK(asyra_executor_await(executor, number));
  void* at = NULL;
  CHECK(asyra_executor_output_data(executor, 0, &at));
  if (memcmp(at, output, sizeof(float)) != 0) return ASYRA_INTERNAL;
  asyra_executor_free(executor);
  asyra_states_free(states);
  while (count > 0) free(buffers[--count]);
  free(output);
  return ASYRA_OK;
}

static asyra_status train(asyra_rank* rank, void* data) {
  char** argv = data;
  asyra_trainer_options options = {.size = sizeof(options),
                                   .resume_from = argv[4],
                                   .keep = 2,
                                   .seed = 3};
  asyra_trainer* trainer = NULL;
  CHECK(asyra_trainer_create(rank, argv[2], &options, &trainer));
  const char* files[] = {argv[3]};
  CHECK(asyra_trainer_open_tokens(trainer, files, 1));
  asyra_metrics first = {.size = sizeof(first)}, last = {.size = sizeof(last)};
  CHECK(asyra_trainer_step_on_tokens(trainer, 0.01));
  CHECK(asyra_trainer_metrics(trainer, &first));
  for (int i = 0; i < 19; ++i) {
    CHECK(asyra_trainer_step_on_tokens(trainer, 0.01));
  }
  CHECK(asyra_trainer_save(trainer, argv[4]));
  CHECK(asyra_trainer_finish(trainer));
  CHECK(asyra_trainer_metrics(trainer, &last));
  if (asyra_rank_number(rank) == 0) {
    printf("steps %lld to %lld: loss %.3f to %.3f\n", (long long)first.step,
           (long long)last.step, first.loss, last.loss);
  }
  asyra_trainer_free(trainer);
  return ASYRA_OK;
}

static int fail(void) {
  printf("%s\n", asyra_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  asyra_program *model = NULL, *compiled = NULL;
  if (asyra_version() < 1000 * ASYRA_VERSION_MAJOR) return 3;
  EXPECT_ERROR(asyra_program_load("nothing", NULL, &model), ASYRA_NOT_FOUND,
               "no built-in model");
  if (asyra_program_load(argv[1], NULL, &model) ||
      asyra_program_compile(model, "tp=2", "h100x8", 50, &compiled)) {
    return fail();
  }
  asyra_simulation simulated = {.size = sizeof(simulated)};
  if (asyra_program_simulate(compiled, "h100x8", &simulated)) return fail();
  printf("%lld ranks, %.0f us\n", (long long)asyra_program_ranks(compiled),
         simulated.makespan_us);
  if (asyra_run_ranks("cpu", 2, run_model, compiled)) return fail();
  asyra_program_free(compiled);
  asyra_program_free(model);
  if (asyra_run_ranks("cpu", 2, train, argv)) return fail();
  if (asyra_run_ranks("cpu", 2, train, argv)) return fail();
  EXPECT_ERROR(asyra_run_ranks("tpu", 2, train, argv), ASYRA_INVALID_ARGUMENT,
               "device is 'tpu', it should be cpu or cuda");
  return 0;
}
