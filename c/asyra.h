/* ASYRA for C, and for languages that call C: compile and simulate programs,
 * run them on cpus and GPUs, and train.
 *
 *   asyra_trainer* trainer;
 *   if (asyra_trainer_create(rank, "llama.training", NULL, &trainer) != 0) {
 *     fprintf(stderr, "%s\n", asyra_last_error());
 *   }
 *
 * Functions that may fail return 0, or a code of asyra_status after which
 * asyra_last_error says what was wrong. Handles are freed by their _free, which
 * takes NULL. Pointers into a handle are valid until it is freed. A rank, and
 * all handles made with it, are used by one thread at a time.
 *
 * No function ends the process, whatever a file holds: a pointer that must not
 * be NULL and is, or a count that is out of range, is ASYRA_INVALID_ARGUMENT
 * with its name; an exception or a failed check inside is ASYRA_INTERNAL, after
 * which the handles of the call can only be freed. No C++ exception leaves a
 * function: memory of tensors and programs that the system does not give is
 * ASYRA_OUT_OF_MEMORY; without the few bytes of a table or a message the
 * process may end. A function that makes a handle sets it to NULL when it
 * fails.
 *
 * Structs begin with `size`, which the caller sets to their sizeof: newer
 * libraries have more fields, and read and fill only those that the caller's
 * header has.
 *
 * Tensors are dense, row-major buffers of this rank's part: asyra_tensor_info
 * says how large. The archive is C++: link it with a C++ compiler. The shared
 * library needs none.
 *
 * Within a major version functions and fields are added, none is changed. */
#ifndef ASYRA_H_
#define ASYRA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Exports of the shared library. */
#pragma GCC visibility push(default)

#define ASYRA_VERSION_MAJOR 2
#define ASYRA_VERSION_MINOR 0

/* Returns 1000 * major + minor of the library, which may be newer than this
 * header. */
int32_t asyra_version(void);

typedef enum asyra_status {
  ASYRA_OK = 0,
  ASYRA_INVALID_ARGUMENT = 3,
  ASYRA_TIMEOUT = 4,
  ASYRA_NOT_FOUND = 5,
  ASYRA_OUT_OF_MEMORY = 8, /* or disk */
  ASYRA_FAILED_PRECONDITION = 9,
  ASYRA_ABORTED = 10, /* another rank has failed */
  ASYRA_OUT_OF_RANGE = 11,
  ASYRA_UNIMPLEMENTED = 12,
  ASYRA_INTERNAL = 13,
  ASYRA_UNAVAILABLE = 14 /* a rank is lost */
} asyra_status;

/* Returns the message of the last function of this thread that failed; empty
 * before. */
const char* asyra_last_error(void);

typedef enum asyra_dtype {
  ASYRA_BOOL = 0,
  ASYRA_I32 = 1,
  ASYRA_I64 = 2,
  ASYRA_F16 = 3,
  ASYRA_BF16 = 4,
  ASYRA_F32 = 5,
  ASYRA_F64 = 6
} asyra_dtype;

#define ASYRA_MAX_RANK 8

typedef struct asyra_tensor_info {
  size_t size; /* sizeof(asyra_tensor_info) */
  const char* name;
  asyra_dtype dtype;
  int32_t rank;
  int64_t shape[ASYRA_MAX_RANK];
  int64_t bytes;
} asyra_tensor_info;

/* Programs -------------------------------------------------------------- */

typedef struct asyra_program asyra_program;

/* Loads an .asyra file with its .safetensors, an .onnx file, a config.json of
 * Hugging Face or its folder with safetensors, or a built-in model. A file that
 * is no valid program is ASYRA_INVALID_ARGUMENT. `dims` gives sizes to symbolic
 * dimensions, "batch=4,seq=128"; may be NULL. */
asyra_status asyra_program_load(const char* model, const char* dims,
                                asyra_program** program);
/* Compiles for a mesh, "dp=2,tp=4" or NULL for one device, and a machine,
 * "h100x8" or a .machine file. `search_steps` bounds the search of schedules,
 * to at most 10 million; 0: the default. */
asyra_status asyra_program_compile(const asyra_program* model, const char* mesh,
                                   const char* machine, int32_t search_steps,
                                   asyra_program** program);
/* Writes an .asyra file; weights with data go beside it. */
asyra_status asyra_program_save(const asyra_program* program, const char* path);
/* The simulation of a compiled program on a machine. */
typedef struct asyra_simulation {
  size_t size;            /* sizeof(asyra_simulation) */
  double makespan_us;     /* of a step */
  double exposed_comm_us; /* communication that nothing hides */
  double lower_bound_us;
  int64_t peak_bytes; /* of a device */
} asyra_simulation;
asyra_status asyra_program_simulate(const asyra_program* program,
                                    const char* machine,
                                    asyra_simulation* result);
/* Returns the ranks of a program; -1 of NULL. */
int64_t asyra_program_ranks(const asyra_program* program);
void asyra_program_free(asyra_program* program);

/* Ranks ----------------------------------------------------------------- */

/* One rank: its device and its connection to the others. */
typedef struct asyra_rank asyra_rank;

/* Runs body(rank, data) on `ranks` threads, at most 4096, on "cpu" or "cuda".
 * An error of one ends all; the first is returned. The rank is the body's until
 * it returns, and not to be freed; `data` may be NULL. */
typedef asyra_status (*asyra_body)(asyra_rank* rank, void* data);
asyra_status asyra_run_ranks(const char* device, int64_t ranks, asyra_body body,
                             void* data);
/* Makes this process the rank that mpirun, srun or torchrun has started; the
 * only one if none has. */
asyra_status asyra_rank_connect(const char* device, asyra_rank** rank);
/* Return the position of a rank, and the count of ranks; -1 of NULL. */
int64_t asyra_rank_number(const asyra_rank* rank);
int64_t asyra_rank_count(const asyra_rank* rank);
/* Frees a rank of asyra_rank_connect, after all handles made with it. */
void asyra_rank_free(asyra_rank* rank);

/* Running --------------------------------------------------------------- */

/* Params and states by name, shared by several executors of a rank. */
typedef struct asyra_states asyra_states;
asyra_status asyra_states_create(asyra_rank* rank, asyra_states** states);
/* Copy a value; `bytes` is its size. */
asyra_status asyra_states_get(asyra_states* states, const char* name, void* to,
                              int64_t bytes);
asyra_status asyra_states_set(asyra_states* states, const char* name,
                              const void* from, int64_t bytes);
void asyra_states_free(asyra_states* states);

typedef struct asyra_executor asyra_executor;
/* Creates an executor. `states` may be NULL: the executor has its own. All
 * ranks call it. */
asyra_status asyra_executor_create(asyra_rank* rank,
                                   const asyra_program* program,
                                   asyra_states* states,
                                   asyra_executor** executor);
/* Describe data input or output `index`; ASYRA_OUT_OF_RANGE beyond the last. */
asyra_status asyra_executor_input(const asyra_executor* executor, int32_t index,
                                  asyra_tensor_info* info);
asyra_status asyra_executor_output(const asyra_executor* executor,
                                   int32_t index, asyra_tensor_info* info);
/* Runs a step on host buffers, one for each input; returns when it is done. The
 * array of a program without inputs may be NULL. */
asyra_status asyra_executor_step(asyra_executor* executor,
                                 const void* const* inputs);
/* The same on memory of the device, behind the work of `stream` (cudaStream_t;
 * NULL on cpus), which goes on behind the step. Returns at once; `number`, if
 * not NULL, is for asyra_executor_await. */
asyra_status asyra_executor_enqueue(asyra_executor* executor,
                                    void* const* inputs, void* stream,
                                    int64_t* number);
asyra_status asyra_executor_await(asyra_executor* executor, int64_t number);
/* Give the device memory where steps read an input and leave an output. */
asyra_status asyra_executor_input_data(const asyra_executor* executor,
                                       int32_t index, void** data);
asyra_status asyra_executor_output_data(const asyra_executor* executor,
                                        int32_t index, void** data);
/* Copies an output of the last step to the host. */
asyra_status asyra_executor_read_output(asyra_executor* executor, int32_t index,
                                        void* to, int64_t bytes);
/* Copy a value of one executor, like asyra_states_get and _set. */
asyra_status asyra_executor_get_state(asyra_executor* executor,
                                      const char* name, void* to,
                                      int64_t bytes);
asyra_status asyra_executor_set_state(asyra_executor* executor,
                                      const char* name, const void* from,
                                      int64_t bytes);
void asyra_executor_free(asyra_executor* executor);

/* Training -------------------------------------------------------------- */

/* A folder of asyra-opt --train on one rank; all ranks call its functions in
 * one order. */
typedef struct asyra_trainer asyra_trainer;

typedef struct asyra_trainer_options {
  size_t size;             /* sizeof(asyra_trainer_options) */
  const char* resume_from; /* a directory of checkpoints; NULL: none */
  int64_t keep;            /* the newest checkpoints that stay; 0: all */
  int64_t seed;            /* of first values and of the order of data */
  int32_t random_weights;  /* all params begin with random values */
  int32_t skip_not_finite; /* go on after a step that is not finite */
  int32_t check_finite;    /* name the op of the first NaN; slow */
  /* The last token of each document in files of tokens, which the folder was
   * compiled for (asyra-opt --documents); NULL: tokens are not of documents. */
  const int64_t* document_end;
} asyra_trainer_options;

/* Creates a trainer. `options` may be NULL. Error: ranks are given different
 * ones. */
asyra_status asyra_trainer_create(asyra_rank* rank, const char* folder,
                                  const asyra_trainer_options* options,
                                  asyra_trainer** trainer);
asyra_status asyra_trainer_input(const asyra_trainer* trainer, int32_t index,
                                 asyra_tensor_info* info);
/* Updates by a batch: host buffers, one for each input. Returns while the
 * device works on it. With a learning rate that is negative or not finite
 * nothing begins. */
asyra_status asyra_trainer_step(asyra_trainer* trainer,
                                const void* const* batch, double rate);
/* Adds the gradients of a batch to those of the next step. */
asyra_status asyra_trainer_accumulate(asyra_trainer* trainer,
                                      const void* const* batch);
/* Opens 1 to 65536 files of tokens, by name or pattern, shuffled; goes on where
 * the checkpoint says. All ranks call it. Error: its data was in another order,
 * by another seed or of other files; ranks have other tokens. */
asyra_status asyra_trainer_open_tokens(asyra_trainer* trainer,
                                       const char* const* files, int32_t count);
/* Runs a step on the next batch of them, or on as many as the folder's steps
 * have (asyra-opt --accumulate). */
asyra_status asyra_trainer_step_on_tokens(asyra_trainer* trainer, double rate);
/* Returns the steps of a trainer; -1 of NULL. */
int64_t asyra_trainer_steps(const asyra_trainer* trainer);

typedef struct asyra_metrics {
  size_t size;  /* sizeof(asyra_metrics) */
  int64_t step; /* from 1 */
  double loss, norm, seconds, tokens_per_s;
  double mfu;      /* 0: not known */
  int32_t skipped; /* the step was not finite, and changed nothing */
} asyra_metrics;
/* Fills the metrics of the last step; waits for it. */
asyra_status asyra_trainer_metrics(asyra_trainer* trainer,
                                   asyra_metrics* metrics);
/* Computes the mean loss of a batch with the params as they are. Its inputs are
 * those of evaluate.asyra. Error: no label of the batch counts. */
asyra_status asyra_trainer_evaluate(asyra_trainer* trainer,
                                    const void* const* batch, double* loss);
/* Begins a checkpoint, which is written behind the next steps;
 * asyra_trainer_finish waits for it. All ranks call both. Error: ranks that do
 * not, by name, after the timeout. */
asyra_status asyra_trainer_save(asyra_trainer* trainer, const char* directory);
/* Waits for all steps and checkpoints. */
asyra_status asyra_trainer_finish(asyra_trainer* trainer);
/* Writes all float weights of the model as one safetensors file, under the
 * names of the model's file. */
asyra_status asyra_trainer_export(asyra_trainer* trainer, const char* path);
/* Completes a checkpoint that was begun; where it cannot, a line on stderr says
 * so. asyra_trainer_finish returns the error. */
void asyra_trainer_free(asyra_trainer* trainer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* ASYRA_H_ */
