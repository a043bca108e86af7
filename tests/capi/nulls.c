/* NULL where a function of plait.h needs an object, a text or a place. */
#include <stddef.h>

#include "check.h"

void test_nulls(void) {
  const int kind = PLAIT_VALUE_ERROR;
  const char* const part = "NULL";
  const int64_t size = 2;
  plait_ndarray* array = NULL;
  plait_symbol* symbol = NULL;
  plait_executor* executor = NULL;
  plait_params* params = NULL;
  plait_shapes* shapes = NULL;
  plait_optimizer* optimizer = NULL;
  int number = 0, rank = 0;
  const int64_t* sizes = NULL;
  const char* text = NULL;
  FAILS(plait_memory_get(0, NULL), kind, part);
  FAILS(plait_operator_count(NULL), kind, part);
  FAILS(plait_operator_name(0, NULL), kind, part);
  FAILS(plait_operator_describe(0, NULL), kind, part);
  FAILS(plait_ndarray_create(&size, 1, 0, NULL, NULL), kind, part);
  FAILS(plait_ndarray_create(NULL, 1, 0, NULL, &array), kind, part);
  FAILS(plait_ndarray_shape(NULL, &rank, &sizes), kind, part);
  FAILS(plait_ndarray_dtype(NULL, &number), kind, part);
  FAILS(plait_ndarray_size(NULL, NULL, NULL), kind, part);
  FAILS(plait_ndarray_copy_from(NULL, &size, 8), kind, part);
  FAILS(plait_ndarray_copy_to(NULL, &number, 4), kind, part);
  FAILS(plait_ndarray_reshape(NULL, &size, 1, &array), kind, part);
  FAILS(plait_ndarray_slice(NULL, 0, 1, &array), kind, part);
  FAILS(plait_ndarray_wait(NULL), kind, part);
  FAILS(plait_ndarray_initialize(NULL, "w", "xavier"), kind, part);
  FAILS(plait_operator_invoke(NULL, 0, NULL, 0, NULL, NULL, &number, &array), kind,
        part);
  FAILS(plait_operator_invoke("relu", 1, NULL, 0, NULL, NULL, &number, &array), kind,
        part);
  FAILS(plait_operator_invoke_into(NULL, 0, NULL, 0, NULL, NULL, 1, &array), kind,
        part);
  FAILS(plait_params_create(NULL), kind, part);
  FAILS(plait_params_load(NULL, &params), kind, part);
  FAILS(plait_params_parse(NULL, 4, &params), kind, part);
  FAILS(plait_params_save(NULL, "x"), kind, part);
  FAILS(plait_params_count(NULL, &number), kind, part);
  FAILS(plait_params_name(NULL, 0, &text), kind, part);
  FAILS(plait_params_get(NULL, "x", &array), kind, part);
  FAILS(plait_params_set(NULL, "x", array), kind, part);
  FAILS(plait_symbol_load(NULL, &symbol), kind, part);
  FAILS(plait_symbol_parse(NULL, &symbol), kind, part);
  FAILS(plait_symbol_save(NULL, "x"), kind, part);
  FAILS(plait_symbol_json(NULL, &text), kind, part);
  FAILS(plait_symbol_variable(NULL, &symbol), kind, part);
  FAILS(plait_symbol_make(NULL, "n", 0, NULL, NULL, 0, NULL, NULL, &symbol), kind,
        part);
  FAILS(plait_symbol_make("relu", "n", 1, NULL, NULL, 0, NULL, NULL, &symbol), kind,
        part);
  FAILS(plait_symbol_make("relu", "n", 0, NULL, NULL, 1, NULL, NULL, &symbol), kind,
        part);
  FAILS(plait_symbol_group(1, &symbol, &symbol), kind, part);
  FAILS(plait_symbol_output(NULL, 0, &symbol), kind, part);
  FAILS(plait_symbol_internals(NULL, &symbol), kind, part);
  FAILS(plait_symbol_count(NULL, 0, &number), kind, part);
  FAILS(plait_symbol_name(NULL, 0, 0, &text), kind, part);
  FAILS(plait_symbol_infer(NULL, 0, NULL, &shapes), kind, part);
  FAILS(plait_shapes_get(NULL, 0, 0, &rank, &sizes), kind, part);
  FAILS(plait_executor_bind(NULL, NULL, 0, NULL, 0, &executor), kind, part);
  FAILS(plait_executor_set_input(NULL, "x", &size, 8), kind, part);
  FAILS(plait_executor_array(NULL, "x", &array), kind, part);
  FAILS(plait_executor_gradient(NULL, "x", &array), kind, part);
  FAILS(plait_executor_output(NULL, 0, &array), kind, part);
  FAILS(plait_executor_forward(NULL, 0), kind, part);
  FAILS(plait_executor_reshape(NULL, 0, NULL), kind, part);
  FAILS(plait_executor_backward(NULL, 0, NULL), kind, part);
  FAILS(plait_executor_memory(NULL, 0, 0, NULL), kind, part);
  FAILS(plait_optimizer_create(NULL, 0, NULL, NULL, &optimizer), kind, part);
  FAILS(plait_optimizer_set(NULL, "wd", "0"), kind, part);
  FAILS(plait_optimizer_step(NULL, executor), kind, part);
  FAILS(plait_optimizer_update(NULL, "w", array, array), kind, part);

  /* The object is there, the place for the result is not. */
  OK(plait_symbol_variable("x", &symbol));
  OK(plait_params_create(&params));
  OK(plait_ndarray_create(&size, 1, 0, NULL, &array));
  OK(plait_params_set(params, "x", array));
  const plait_named_shape shape = {"x", 1, &size};
  OK(plait_executor_bind(symbol, params, 1, &shape, 2, &executor));
  FAILS(plait_ndarray_reshape(array, &size, 1, NULL), kind, part);
  FAILS(plait_ndarray_slice(array, 0, 1, NULL), kind, part);
  FAILS(plait_ndarray_initialize(array, NULL, "zeros"), kind, part);
  FAILS(plait_ndarray_copy_from(array, NULL, 8), kind, part);
  FAILS(plait_ndarray_copy_to(array, NULL, 8), kind, part);
  FAILS(plait_operator_invoke("relu", 1, &array, 0, NULL, NULL, NULL, NULL), kind,
        part);
  FAILS(plait_params_get(params, "x", NULL), kind, part);
  FAILS(plait_params_get(params, NULL, &array), kind, part);
  FAILS(plait_params_set(params, "y", NULL), kind, part);
  FAILS(plait_symbol_group(1, &symbol, NULL), kind, part);
  FAILS(plait_symbol_output(symbol, 0, NULL), kind, part);
  FAILS(plait_symbol_internals(symbol, NULL), kind, part);
  FAILS(plait_symbol_infer(symbol, 0, NULL, NULL), kind, part);
  FAILS(plait_symbol_infer(symbol, 1, NULL, &shapes), kind, part);
  FAILS(plait_executor_bind(symbol, params, 1, NULL, 0, &executor), kind, part);
  FAILS(plait_executor_bind(symbol, params, 0, NULL, 0, NULL), kind, part);
  FAILS(plait_executor_array(executor, "x", NULL), kind, part);
  FAILS(plait_executor_gradient(executor, NULL, &array), kind, part);
  FAILS(plait_executor_output(executor, 0, NULL), kind, part);
  FAILS(plait_executor_set_input(executor, "x", NULL, 8), kind, part);
  FAILS(plait_executor_reshape(executor, 1, NULL), kind, part);
  FAILS(plait_optimizer_create("sgd", 0, NULL, NULL, NULL), kind, part);
  plait_executor_free(executor);
  plait_params_free(params);
  plait_symbol_free(symbol);
  plait_ndarray_free(array);
  plait_shapes_free(NULL);
  plait_executor_free(NULL);
  plait_optimizer_free(NULL);
}
