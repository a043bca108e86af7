/* Executors that change: other batch sizes on one handle, other threads for each step.
 */
#include <pthread.h>
#include <stddef.h>

#include "check.h"

/* y = x w + b, with w of (3, 2) ones and b = {1, -1}. */
static plait_symbol* dense(plait_params* params) {
  const float ones[] = {1, 1, 1, 1, 1, 1}, bias[] = {1, -1};
  const char *key = "num_hidden", *two = "2";
  plait_symbol *x = NULL, *y = NULL;
  plait_ndarray *w = floats(ones, 2, 3, -1), *b = floats(bias, 2, -1);
  OK(plait_symbol_variable("data", &x));
  OK(plait_symbol_make("FullyConnected", "fc", 1, &key, &two, 1, NULL, &x, &y));
  OK(plait_params_set(params, "arg:fc_weight", w));
  OK(plait_params_set(params, "arg:fc_bias", b));
  plait_ndarray_free(w);
  plait_ndarray_free(b);
  plait_symbol_free(x);
  return y;
}

/* Predicts rows {i, i, i}; 0 where all is right. */
static int predict(plait_executor* executor, int64_t batch) {
  float x[3 * 16], y[2 * 16];
  const int64_t* sizes = NULL;
  int rank = 0, wrong = 0;
  plait_ndarray* output = NULL;
  const size_t rows = (size_t)batch;
  for (int i = 0; i < 3 * batch; ++i) x[i] = (float)(i / 3);
  wrong |= plait_executor_set_input(executor, "data", x, rows * 3 * sizeof *x);
  wrong |= plait_executor_forward(executor, 0);
  wrong |= plait_executor_output(executor, 0, &output);
  wrong |= plait_ndarray_shape(output, &rank, &sizes);
  wrong |= rank != 2 || sizes[0] != batch || sizes[1] != 2;
  wrong |= plait_ndarray_copy_to(output, y, rows * 2 * sizeof *y);
  for (int i = 0; i < batch && !wrong; ++i)
    wrong = y[2 * i] != (float)(3 * i + 1) || y[2 * i + 1] != (float)(3 * i - 1);
  plait_ndarray_free(output);
  return wrong;
}

static void test_reshape(const plait_symbol* net, const plait_params* params) {
  int64_t sizes[] = {1, 3};
  plait_named_shape shape = {"data", 2, sizes};
  const plait_named_shape twice[] = {shape, shape};
  plait_executor* executor = NULL;
  OK(plait_executor_bind(net, params, 1, &shape, PLAIT_GRADIENTS_NONE, &executor));
  const int64_t batches[] = {1, 7, 3, 16, 1};
  for (int i = 0; i < 5; ++i) {
    sizes[0] = batches[i];
    OK(plait_executor_reshape(executor, 1, &shape));
    CHECK(predict(executor, batches[i]) == 0);
  }
  OK(plait_executor_reshape(executor, 0, NULL)); /* the shapes that it has */
  CHECK(predict(executor, 1) == 0);

  /* What does not fit changes nothing. */
  sizes[1] = 4;
  FAILS(plait_executor_reshape(executor, 1, &shape), PLAIT_VALUE_ERROR,
        "fc_weight has shape (2, 3); shape (2, 4)");
  sizes[1] = -1;
  FAILS(plait_executor_reshape(executor, 1, &shape), PLAIT_VALUE_ERROR, "size is -1");
  FAILS(plait_executor_reshape(executor, 2, twice), PLAIT_VALUE_ERROR, "-1");
  sizes[1] = 3;
  FAILS(plait_executor_reshape(executor, 2, twice), PLAIT_VALUE_ERROR, "given twice");
  shape.name = "fc_bias";
  FAILS(plait_executor_reshape(executor, 1, &shape), PLAIT_VALUE_ERROR,
        "fc_bias had no shape");
  FAILS(plait_executor_reshape(executor, -1, &shape), PLAIT_VALUE_ERROR, "is -1");
  CHECK(predict(executor, 1) == 0);
  plait_executor_free(executor);

  /* A weight whose shape was given is the same weight still. */
  int64_t of_weight[] = {2, 3};
  const plait_named_shape both[] = {{"data", 2, sizes}, {"fc_weight", 2, of_weight}};
  sizes[0] = 1;
  OK(plait_executor_bind(net, params, 2, both, PLAIT_GRADIENTS_NONE, &executor));
  CHECK(predict(executor, 1) == 0);
  sizes[0] = 5;
  OK(plait_executor_reshape(executor, 1, both));
  CHECK(predict(executor, 5) == 0);
  plait_executor_free(executor);
}

struct step {
  const plait_symbol* net;
  const plait_params* params;
  plait_executor* executor;
  int wrong;
};

static void* create(void* argument) {
  struct step* step = argument;
  const int64_t sizes[] = {2, 3};
  const plait_named_shape shape = {"data", 2, sizes};
  step->wrong |=
      plait_executor_bind(step->net, step->params, 1, &shape, 0, &step->executor);
  return NULL;
}

static void* run(void* argument) {
  struct step* step = argument;
  step->wrong |= predict(step->executor, 2);
  return NULL;
}

static void* destroy(void* argument) {
  struct step* step = argument;
  plait_executor_free(step->executor);
  return NULL;
}

/* Made by one thread, run by another and freed by a third, again and again. */
static void test_change_of_threads(const plait_symbol* net,
                                   const plait_params* params) {
  void* (*const steps[])(void*) = {create, run, destroy};
  struct step step = {net, params, NULL, 0};
  for (int i = 0; i < 1000; ++i) {
    for (int k = 0; k < 3; ++k) {
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, steps[k], &step) == 0);
      pthread_join(thread, NULL);
    }
  }
  CHECK(!step.wrong);
}

void test_handles(void) {
  plait_params* params = NULL;
  OK(plait_params_create(&params));
  plait_symbol* net = dense(params);
  test_reshape(net, params);
  test_change_of_threads(net, params);
  plait_symbol_free(net);
  plait_params_free(params);
}
