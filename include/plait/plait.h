/* The C interface of Plait: arrays, operators, symbols, executors, optimizers.
 *
 * Conventions:
 *
 * (1) Objects are opaque and used through pointers. A function that gives a new object
 *     writes it through its last argument, `out`; the caller frees it with the type's
 *     _free function, in any order: objects share what they need. _free takes NULL.
 *
 * (2) Functions return a status: PLAIT_OK, or the kind of an error. Then nothing was
 *     written through `out`, and plait_last_error() says what is wrong, with the values
 *     got and what was expected. No function ends the process, and NULL where an object
 *     or a text is needed is an error like any other.
 *
 * (3) Operators run later, in the order that their arrays require. Wrong shapes, types
 *     and parameters are reported at once; an error that only the computation finds is
 *     reported by the next call that waits for its result (copy_to, wait).
 *
 * (4) Data goes in and out by copy_from and copy_to, which copy. Texts and lists of
 *     sizes that a function gives belong to the object that was asked and live as long
 *     as it does; texts given to a function are copied.
 *
 * (5) Functions may be called from any thread. Arrays and symbols may be used by
 * several threads at once; a plait_params, plait_executor or plait_optimizer by one at
 * a time. Errors are kept for each thread.
 *
 * (6) Names of operators and parameters, files and numbers of dtypes are MXNet's 1.9.
 *     Parameters are texts: "64", "0.5", "relu", "(2, 2)", "True".
 */
#ifndef PLAIT_PLAIT_H_
#define PLAIT_PLAIT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLAIT_API __attribute__((visibility("default")))

typedef struct plait_ndarray plait_ndarray;
typedef struct plait_params plait_params;
typedef struct plait_symbol plait_symbol;
typedef struct plait_shapes plait_shapes;
typedef struct plait_executor plait_executor;
typedef struct plait_optimizer plait_optimizer;

/* What functions return. */
enum {
  PLAIT_OK = 0,
  PLAIT_VALUE_ERROR = 1,     /* a value or a shape that does not fit */
  PLAIT_TYPE_ERROR = 2,      /* a dtype, or the name of an argument */
  PLAIT_INDEX_ERROR = 3,     /* out of range */
  PLAIT_MEMORY_ERROR = 4,    /* out of memory; the library goes on */
  PLAIT_STATE_ERROR = 5,     /* not possible now */
  PLAIT_NOT_IMPLEMENTED = 6, /* known, but not there */
  PLAIT_IO_ERROR = 7,        /* a file */
  PLAIT_INTERNAL_ERROR = 8   /* anything else */
};

/* Types of elements. */
enum {
  PLAIT_FLOAT32 = 0,
  PLAIT_FLOAT64 = 1,
  PLAIT_FLOAT16 = 2,
  PLAIT_UINT8 = 3,
  PLAIT_INT32 = 4,
  PLAIT_INT8 = 5,
  PLAIT_INT64 = 6,
  PLAIT_BOOL = 7,
  PLAIT_INT16 = 8,
  PLAIT_UINT16 = 9,
  PLAIT_UINT32 = 10,
  PLAIT_UINT64 = 11,
  PLAIT_BFLOAT16 = 12
};

/* ---------------------------------------------------------------- the library */

/* The text of this thread's last error; "" when there was none. Lives until the next
 * error in the same thread. */
PLAIT_API const char* plait_last_error(void);

/* "0.1.0" */
PLAIT_API const char* plait_version(void);

/* Starts the generators of random numbers afresh. */
PLAIT_API int plait_seed(uint64_t seed);

/* Returns when everything that was asked for is done; reports the first failure. */
PLAIT_API int plait_wait_all(void);

/* Bytes of arrays' memory. */
enum {
  PLAIT_MEMORY_LIVE = 0,       /* in use */
  PLAIT_MEMORY_PEAK = 1,       /* the most that was in use */
  PLAIT_MEMORY_RESERVED = 2,   /* taken from the system: in use, or kept for reuse */
  PLAIT_MEMORY_LIMIT = 3,      /* 0: none */
  PLAIT_MEMORY_ALLOCATIONS = 4 /* a count, not bytes */
};
PLAIT_API int plait_memory_get(int what, uint64_t* out);
PLAIT_API int plait_memory_reset_peak(void);
/* More than `bytes` then is PLAIT_MEMORY_ERROR; 0: no limit. */
PLAIT_API int plait_memory_set_limit(uint64_t bytes);
/* Waits, and gives memory that is kept for reuse back to the system. */
PLAIT_API int plait_memory_empty_cache(void);

/* The operators that exist, by number from 0. */
PLAIT_API int plait_operator_count(int* out);
PLAIT_API int plait_operator_name(int index, const char** out);
/* An operator as JSON, for programs that write bindings: "name", "aliases", "doc";
 * "inputs" and "outputs" with "name", "dtypes" (any, floats, integers, numbers) and
 * "doc"; "params" with "name", "type", "required", "default" (a text, as it is given
 * back to plait_operator_invoke) and "doc"; "variable_inputs"; "count_param", the
 * parameter that says how many there are, or null; "variable_outputs", whether
 * parameters say how many outputs there are; "mutates", the numbers of inputs
 * that a call writes; "differentiable". The text lives as long as the library. */
PLAIT_API int plait_operator_describe(int index, const char** out);

/* ---------------------------------------------------------------- arrays */

/* A new array with a copy of `data` (elements in row-major order), or of zeros where
 * data is NULL. rank 0 is a scalar; a size may be 0. */
PLAIT_API int plait_ndarray_create(const int64_t* sizes, int rank, int dtype,
                                   const void* data, plait_ndarray** out);
PLAIT_API void plait_ndarray_free(plait_ndarray* array);

PLAIT_API int plait_ndarray_shape(const plait_ndarray* array, int* rank,
                                  const int64_t** sizes);
PLAIT_API int plait_ndarray_dtype(const plait_ndarray* array, int* out);
/* Elements, and bytes. */
PLAIT_API int plait_ndarray_size(const plait_ndarray* array, int64_t* elements,
                                 size_t* bytes);

/* Copies all elements; `bytes` must be the array's. Waits for what was asked before. */
PLAIT_API int plait_ndarray_copy_from(plait_ndarray* array, const void* data,
                                      size_t bytes);
PLAIT_API int plait_ndarray_copy_to(const plait_ndarray* array, void* data,
                                    size_t bytes);

/* Views: they share the array's memory. Of another shape and equal size; and of the
 * rows first to last - 1 along the first axis. */
PLAIT_API int plait_ndarray_reshape(const plait_ndarray* array, const int64_t* sizes,
                                    int rank, plait_ndarray** out);
PLAIT_API int plait_ndarray_slice(const plait_ndarray* array, int64_t first,
                                  int64_t last, plait_ndarray** out);

/* Returns when the array's value is there, or reports why it is not. */
PLAIT_API int plait_ndarray_wait(const plait_ndarray* array);

/* Fills an array with the first values of a parameter. `name` says what it is by its
 * ending (_weight, _bias, _gamma, _moving_mean, ...); `initializer` is for weights:
 * "xavier", or with options as in ["xavier", {"magnitude": 2}]. */
PLAIT_API int plait_ndarray_initialize(plait_ndarray* array, const char* name,
                                       const char* initializer);

/* Calls an operator: `inputs` in its order, parameters by name. Writes the results, new
 * arrays, to outputs[0] ..., and how many there are to *num_outputs, which must hold
 * the room in `outputs` before. */
PLAIT_API int plait_operator_invoke(const char* name, int num_inputs,
                                    plait_ndarray* const* inputs, int num_params,
                                    const char* const* keys, const char* const* values,
                                    int* num_outputs, plait_ndarray** outputs);
/* The same into arrays that exist, which may be inputs too: w = w - 0.1 g by
 * "sgd_update" with inputs w, g and output w. */
PLAIT_API int plait_operator_invoke_into(const char* name, int num_inputs,
                                         plait_ndarray* const* inputs, int num_params,
                                         const char* const* keys,
                                         const char* const* values, int num_outputs,
                                         plait_ndarray* const* outputs);

/* ---------------------------------------------------------------- named arrays */

/* Arrays by name, as in a .params file. Names there begin with "arg:" or "aux:". */
PLAIT_API int plait_params_create(plait_params** out);
PLAIT_API int plait_params_load(const char* path, plait_params** out);
/* From the bytes of a file; `data` may go away afterwards. */
PLAIT_API int plait_params_parse(const void* data, size_t bytes, plait_params** out);
/* Whole or not at all. */
PLAIT_API int plait_params_save(const plait_params* params, const char* path);
PLAIT_API void plait_params_free(plait_params* params);

PLAIT_API int plait_params_count(const plait_params* params, int* out);
/* The name at a position; lives until the params change. */
PLAIT_API int plait_params_name(const plait_params* params, int index,
                                const char** out);
/* The array of a name, shared: it may be written. */
PLAIT_API int plait_params_get(const plait_params* params, const char* name,
                               plait_ndarray** out);
/* Adds an array, or puts it in the place of the one of that name; shared. */
PLAIT_API int plait_params_set(plait_params* params, const char* name,
                               const plait_ndarray* array);

/* ---------------------------------------------------------------- symbols */

/* From MXNet's JSON, of a file or a text. */
PLAIT_API int plait_symbol_load(const char* path, plait_symbol** out);
PLAIT_API int plait_symbol_parse(const char* json, plait_symbol** out);
PLAIT_API int plait_symbol_save(const plait_symbol* symbol, const char* path);
PLAIT_API int plait_symbol_json(const plait_symbol* symbol, const char** out);
PLAIT_API void plait_symbol_free(plait_symbol* symbol);

PLAIT_API int plait_symbol_variable(const char* name, plait_symbol** out);
/* One operator. `inputs` in its order, or by name where input_names is not NULL; those
 * left out become variables NAME_weight and so on. name NULL: one is made up. */
PLAIT_API int plait_symbol_make(const char* op, const char* name, int num_params,
                                const char* const* keys, const char* const* values,
                                int num_inputs, const char* const* input_names,
                                plait_symbol* const* inputs, plait_symbol** out);
/* The outputs of several symbols; one output; and every output of every node. */
PLAIT_API int plait_symbol_group(int count, plait_symbol* const* symbols,
                                 plait_symbol** out);
PLAIT_API int plait_symbol_output(const plait_symbol* symbol, int index,
                                  plait_symbol** out);
PLAIT_API int plait_symbol_internals(const plait_symbol* symbol, plait_symbol** out);

/* The names of a symbol's variables and outputs. */
enum {
  PLAIT_ARGUMENTS = 0,
  PLAIT_AUXILIARY = 1, /* variables that operators write: moving averages */
  PLAIT_OUTPUTS = 2
};
PLAIT_API int plait_symbol_count(const plait_symbol* symbol, int what, int* out);
PLAIT_API int plait_symbol_name(const plait_symbol* symbol, int what, int index,
                                const char** out);

/* The shape of a variable. A size of -1 is unknown. */
typedef struct {
  const char* name;
  int rank;
  const int64_t* sizes;
} plait_named_shape;

/* What follows from some shapes. Shapes that contradict each other are an error; what
 * does not follow is not. */
PLAIT_API int plait_symbol_infer(const plait_symbol* symbol, int count,
                                 const plait_named_shape* shapes, plait_shapes** out);
/* By position in the lists of plait_symbol_name. rank is -1 where it is unknown. */
PLAIT_API int plait_shapes_get(const plait_shapes* shapes, int what, int index,
                               int* rank, const int64_t** sizes);
PLAIT_API void plait_shapes_free(plait_shapes* shapes);

/* ---------------------------------------------------------------- executors */

/* Which arguments get gradients. */
enum {
  PLAIT_GRADIENTS_NONE = 0,       /* for prediction */
  PLAIT_GRADIENTS_PARAMETERS = 1, /* all that are not among `shapes`, but labels */
  PLAIT_GRADIENTS_ALL = 2
};

/* Binds a symbol to arrays: those of `params`, shared, and new ones of zeros for the
 * arguments of `shapes` (the data). The other shapes follow. params NULL: all arrays
 * are new. With params, an argument in neither is an error, but for labels (names that
 * end in "label"); arrays that the symbol has no use for are left alone. */
PLAIT_API int plait_executor_bind(const plait_symbol* symbol,
                                  const plait_params* params, int count,
                                  const plait_named_shape* shapes, int gradients,
                                  plait_executor** out);
PLAIT_API void plait_executor_free(plait_executor* executor);

/* Binds anew with other shapes of the data, such as another batch size; those left out
 * keep theirs. Parameters stay the arrays that they are and must fit. Data, labels,
 * gradients and outputs become new arrays, so those asked for before are no longer the
 * executor's. After an error everything is as it was. */
PLAIT_API int plait_executor_reshape(plait_executor* executor, int count,
                                     const plait_named_shape* shapes);

/* Copies data into an argument: `bytes` must be its own. */
PLAIT_API int plait_executor_set_input(plait_executor* executor, const char* name,
                                       const void* data, size_t bytes);
/* The bound arrays, shared. An argument or auxiliary state by its name; its gradient;
 * and an output, by number: it holds the latest forward's value. */
PLAIT_API int plait_executor_array(const plait_executor* executor, const char* name,
                                   plait_ndarray** out);
PLAIT_API int plait_executor_gradient(const plait_executor* executor, const char* name,
                                      plait_ndarray** out);
PLAIT_API int plait_executor_output(const plait_executor* executor, int index,
                                    plait_ndarray** out);

/* training is 0 or 1: dropout and batch statistics depend on it. Does not wait. */
PLAIT_API int plait_executor_forward(plait_executor* executor, int training);
/* Computes the gradients. Gradients of the outputs by number; NULL, or fewer of them,
 * where they are ones or a loss's own. */
PLAIT_API int plait_executor_backward(plait_executor* executor, int count,
                                      plait_ndarray* const* head_gradients);

/* Bytes of the values between inputs and outputs. */
enum {
  PLAIT_PLAN_NONE = 0,     /* if every value had memory of its own */
  PLAIT_PLAN_INPLACE = 1,  /* outputs in the place of inputs that end there */
  PLAIT_PLAN_CO_SHARE = 2, /* shared by values that are not alive together */
  PLAIT_PLAN_BOTH = 3,     /* as it is used */
  PLAIT_PLAN_LOWER_BOUND = 4
};
PLAIT_API int plait_executor_memory(plait_executor* executor, int training, int what,
                                    uint64_t* out);

/* ---------------------------------------------------------------- optimizers */

/* By name ("sgd", "adam", ...) with options ("learning_rate", "momentum", "wd", ...).
 */
PLAIT_API int plait_optimizer_create(const char* name, int count,
                                     const char* const* keys, const char* const* values,
                                     plait_optimizer** out);
PLAIT_API void plait_optimizer_free(plait_optimizer* optimizer);
/* Changes an option, such as the learning rate. */
PLAIT_API int plait_optimizer_set(plait_optimizer* optimizer, const char* key,
                                  const char* value);
/* One update of every argument of an executor that has a gradient, by its name. */
PLAIT_API int plait_optimizer_step(plait_optimizer* optimizer,
                                   plait_executor* executor);
/* One update of one array; its state is kept by name. */
PLAIT_API int plait_optimizer_update(plait_optimizer* optimizer, const char* name,
                                     plait_ndarray* weight,
                                     const plait_ndarray* gradient);

#ifdef __cplusplus
}
#endif

#endif /* PLAIT_PLAIT_H_ */
