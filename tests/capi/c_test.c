/* Tests of plait.h from C: `c_test FOLDER` runs all and leaves its files in FOLDER;
 * `c_test predict SYMBOL PARAMS INPUT OUTPUT SIZES...` runs a saved network.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int failures = 0;

void check_true(int condition, const char* text, const char* file, int line) {
  if (condition) return;
  ++failures;
  printf("%s:%d: not so: %s\n", file, line, text);
}

void check_ok(int status, const char* text, const char* file, int line) {
  if (status == PLAIT_OK) return;
  ++failures;
  printf("%s:%d: %s\n  status %d: %s\n", file, line, text, status, plait_last_error());
}

void check_fails(int status, int kind, const char* part, const char* text,
                 const char* file, int line) {
  if (status == kind && strstr(plait_last_error(), part) != NULL) return;
  ++failures;
  printf("%s:%d: %s\n  status %d (%d was expected): %s\n  without: %s\n", file, line,
         text, status, kind, plait_last_error(), part);
}

plait_ndarray* floats(const float* data, int64_t first, ...) {
  int64_t sizes[8];
  int rank = 0;
  va_list rest;
  va_start(rest, first);
  for (int64_t size = first; size >= 0; size = va_arg(rest, int)) sizes[rank++] = size;
  va_end(rest);
  plait_ndarray* x = NULL;
  OK(plait_ndarray_create(sizes, rank, PLAIT_FLOAT32, data, &x));
  return x;
}

plait_ndarray* call(const char* op, plait_ndarray* x, plait_ndarray* y, const char* key,
                    const char* value) {
  plait_ndarray* in[2];
  int inputs = 0, outputs = 1;
  plait_ndarray* out = NULL;
  in[0] = x;
  in[1] = y;
  inputs = (x != NULL) + (y != NULL);
  OK(plait_operator_invoke(op, inputs, in, key != NULL, &key, &value, &outputs, &out));
  return out;
}

float element(const plait_ndarray* x, int i) {
  static float data[4096];
  size_t bytes = 0;
  OK(plait_ndarray_size(x, NULL, &bytes));
  if (bytes > sizeof data) return -1;
  OK(plait_ndarray_copy_to(x, data, bytes));
  return data[i];
}

/* ---------------------------------------------------------------- the library */

static void* fail_in_a_thread(void* text) {
  plait_symbol* symbol = NULL;
  if (plait_last_error()[0] != '\0') return NULL;
  plait_symbol_parse("{", &symbol);
  snprintf(text, 200, "%s", plait_last_error());
  return NULL;
}

static void test_library(void) {
  int count = 0;
  const char* name = NULL;
  CHECK(strcmp(plait_version(), "0.1.0") == 0);
  OK(plait_operator_count(&count));
  CHECK(count > 300);
  OK(plait_operator_name(0, &name));
  CHECK(strlen(name) > 0);
  FAILS(plait_operator_name(count, &name), PLAIT_INDEX_ERROR, "out of range");
  FAILS(plait_operator_name(-1, &name), PLAIT_INDEX_ERROR, "index -1");
  FAILS(plait_operator_describe(-1, &name), PLAIT_INDEX_ERROR, "index -1");

  /* Errors are kept for each thread. */
  char other[200] = "";
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fail_in_a_thread, other) == 0);
  pthread_join(thread, NULL);
  CHECK(strlen(other) > 0);
  CHECK(strstr(plait_last_error(), "index -1") != NULL);
}

static void test_memory(void) {
  uint64_t live = 0, more = 0, peak = 0;
  const int64_t million = 1000000;
  plait_ndarray *x = NULL, *y = NULL;
  OK(plait_memory_get(PLAIT_MEMORY_LIVE, &live));
  OK(plait_ndarray_create(&million, 1, PLAIT_FLOAT32, NULL, &x));
  OK(plait_ndarray_wait(x));
  OK(plait_memory_get(PLAIT_MEMORY_LIVE, &more));
  CHECK(more >= live + 4000000);
  plait_ndarray_free(x);
  OK(plait_wait_all());
  OK(plait_memory_reset_peak());
  OK(plait_memory_get(PLAIT_MEMORY_PEAK, &peak));
  CHECK(peak < more);
  FAILS(plait_memory_get(5, &peak), PLAIT_VALUE_ERROR, "what is 5");

  OK(plait_memory_set_limit(peak + 1000000));
  OK(plait_memory_empty_cache());
  const float* const none = NULL;
  int status = plait_ndarray_create(&million, 1, PLAIT_FLOAT32, none, &y);
  if (status == PLAIT_OK) status = plait_ndarray_wait(y);
  CHECK(status == PLAIT_MEMORY_ERROR);
  CHECK(strstr(plait_last_error(), "limit") != NULL);
  plait_ndarray_free(y);
  OK(plait_memory_set_limit(0));
  OK(plait_ndarray_create(&million, 1, PLAIT_FLOAT32, none, &y));
  CHECK(element(y, 0) == -1); /* too large for element(), but alive */
  OK(plait_ndarray_wait(y));
  plait_ndarray_free(y);
}

/* ---------------------------------------------------------------- a saved network */

static int give_up(void) {
  fprintf(stderr, "%s\n", plait_last_error());
  return 1;
}

/* Reads float32 data of the given sizes, writes the first output. */
static int predict(char** arguments, int count) {
  int64_t sizes[8];
  size_t elements = 1, bytes = 0;
  const int rank = count - 4;
  for (int i = 0; i < rank; ++i) {
    sizes[i] = atoll(arguments[4 + i]);
    elements *= (size_t)sizes[i];
  }
  float* data = malloc(elements * sizeof(float));
  FILE* file = fopen(arguments[2], "rb");
  if (file == NULL || fread(data, sizeof(float), elements, file) != elements) return 2;
  fclose(file);

  plait_symbol* symbol = NULL;
  plait_params* params = NULL;
  plait_executor* executor = NULL;
  plait_ndarray* output = NULL;
  const plait_named_shape shape = {"data", rank, sizes};
  if (plait_symbol_load(arguments[0], &symbol) != PLAIT_OK ||
      plait_params_load(arguments[1], &params) != PLAIT_OK ||
      plait_executor_bind(symbol, params, 1, &shape, PLAIT_GRADIENTS_NONE, &executor) !=
          PLAIT_OK ||
      plait_executor_set_input(executor, "data", data, elements * sizeof(float)) !=
          PLAIT_OK ||
      plait_executor_forward(executor, 0) != PLAIT_OK ||
      plait_executor_output(executor, 0, &output) != PLAIT_OK ||
      plait_ndarray_size(output, NULL, &bytes) != PLAIT_OK)
    return give_up();
  float* result = malloc(bytes);
  if (plait_ndarray_copy_to(output, result, bytes) != PLAIT_OK) return give_up();
  file = fopen(arguments[3], "wb");
  if (file == NULL || fwrite(result, 1, bytes, file) != bytes) return 2;
  fclose(file);
  free(result);
  free(data);
  plait_ndarray_free(output);
  plait_executor_free(executor);
  plait_params_free(params);
  plait_symbol_free(symbol);
  return 0;
}

int main(int count, char** arguments) {
  if (count > 6 && strcmp(arguments[1], "predict") == 0)
    return predict(arguments + 2, count - 2);
  if (count != 2) return 2;
  CHECK(plait_last_error()[0] == '\0');
  test_library();
  test_arrays();
  test_operators();
  test_params(arguments[1]);
  test_symbols(arguments[1]);
  test_executors();
  test_handles();
  test_nulls();
  test_memory();
  printf(failures == 0 ? "all tests passed\n" : "%d checks failed\n", failures);
  return failures != 0;
}
