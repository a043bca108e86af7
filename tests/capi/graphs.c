/* Symbols, executors and optimizers from C. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static plait_symbol* node(const char* op, const char* name, plait_symbol* x,
                          const char* key, const char* value) {
  plait_symbol* y = NULL;
  OK(plait_symbol_make(op, name, key != NULL, &key, &value, 1, NULL, &x, &y));
  plait_symbol_free(x);
  return y;
}

/* Two layers and a softmax; its label is softmax_label. */
static plait_symbol* perceptron(void) {
  plait_symbol* x = NULL;
  OK(plait_symbol_variable("data", &x));
  x = node("FullyConnected", "fc1", x, "num_hidden", "16");
  x = node("Activation", "tanh1", x, "act_type", "tanh");
  x = node("FullyConnected", "fc2", x, "num_hidden", "2");
  return node("SoftmaxOutput", "softmax", x, "normalization", "batch");
}

static void check_name(const plait_symbol* s, int what, int index, const char* name) {
  const char* got = NULL;
  OK(plait_symbol_name(s, what, index, &got));
  CHECK(got != NULL && strcmp(got, name) == 0);
}

static void test_inference(const plait_symbol* net) {
  const int64_t sizes[] = {8, 3}, unknown[] = {-1, 3}, wrong[] = {16, 4};
  plait_named_shape given[] = {{"data", 2, sizes}, {"fc1_weight", 2, wrong}};
  const int64_t* got = NULL;
  int rank = 0;
  plait_shapes* shapes = NULL;
  OK(plait_symbol_infer(net, 1, given, &shapes));
  OK(plait_shapes_get(shapes, PLAIT_ARGUMENTS, 1, &rank, &got));
  CHECK(rank == 2 && got[0] == 16 && got[1] == 3);
  OK(plait_shapes_get(shapes, PLAIT_OUTPUTS, 0, &rank, &got));
  CHECK(rank == 2 && got[0] == 8 && got[1] == 2);
  FAILS(plait_shapes_get(shapes, PLAIT_OUTPUTS, 1, &rank, &got), PLAIT_INDEX_ERROR,
        "index 1");
  plait_shapes_free(shapes);

  given[0].sizes = unknown;
  OK(plait_symbol_infer(net, 1, given, &shapes));
  OK(plait_shapes_get(shapes, PLAIT_OUTPUTS, 0, &rank, &got));
  CHECK(rank == 2 && got[0] == -1 && got[1] == 2);
  plait_shapes_free(shapes);
  OK(plait_symbol_infer(net, 0, NULL, &shapes));
  OK(plait_shapes_get(shapes, PLAIT_ARGUMENTS, 0, &rank, &got));
  CHECK(rank == -1);
  plait_shapes_free(shapes);

  FAILS(plait_symbol_infer(net, 2, given, &shapes), PLAIT_VALUE_ERROR, "fc1");
  given[0].name = "dada";
  FAILS(plait_symbol_infer(net, 1, given, &shapes), PLAIT_VALUE_ERROR, "dada");
  given[0].rank = -2;
  FAILS(plait_symbol_infer(net, 1, given, &shapes), PLAIT_VALUE_ERROR, "");
}

static void test_bad_symbols(const plait_symbol* net, const char* json) {
  plait_symbol *out = NULL, *x = NULL;
  const char *key = "num_hidden", *value = "many", *none = NULL;
  OK(plait_symbol_variable("x", &x));
  FAILS(plait_symbol_make("FullyConected", "f", 0, NULL, NULL, 1, NULL, &x, &out),
        PLAIT_VALUE_ERROR, "FullyConnected");
  FAILS(plait_symbol_make("FullyConnected", "f", 1, &key, &value, 1, NULL, &x, &out),
        PLAIT_VALUE_ERROR, "many");
  FAILS(plait_symbol_make("FullyConnected", "f", 0, NULL, NULL, 1, NULL, &x, &out),
        PLAIT_VALUE_ERROR, "num_hidden");
  const char* input = "wait";
  value = "3";
  FAILS(plait_symbol_make("FullyConnected", "f", 1, &key, &value, 1, &input, &x, &out),
        PLAIT_TYPE_ERROR, "wait is not an input");
  FAILS(plait_symbol_make("FullyConnected", "f", 1, &key, &value, 1, &none, &x, &out),
        PLAIT_VALUE_ERROR, "NULL");
  plait_symbol* many[] = {x, x, x, x, x};
  FAILS(plait_symbol_make("FullyConnected", "f", 1, &key, &value, 5, NULL, many, &out),
        PLAIT_TYPE_ERROR, "got 5 inputs");
  FAILS(plait_symbol_output(net, 1, &out), PLAIT_INDEX_ERROR, "index 1");
  FAILS(plait_symbol_group(0, NULL, &out), PLAIT_VALUE_ERROR, "no symbols");
  FAILS(plait_symbol_load("/nowhere/x.json", &out), PLAIT_IO_ERROR, "/nowhere");
  FAILS(plait_symbol_parse("", &out), PLAIT_VALUE_ERROR, "");
  FAILS(plait_symbol_parse("[1, 2]", &out), PLAIT_VALUE_ERROR, "");
  int count = 0;
  FAILS(plait_symbol_count(net, 3, &count), PLAIT_VALUE_ERROR, "what is 3");
  FAILS(plait_symbol_name(net, PLAIT_OUTPUTS, -1, &key), PLAIT_INDEX_ERROR, "index -1");

  /* JSON that ends too early, or has other characters, is refused or read; no more. */
  char text[8192];
  const size_t length = strlen(json);
  CHECK(length < sizeof text);
  for (size_t end = 0; end + 1 < length; end += 7) {
    memcpy(text, json, end);
    text[end] = '\0';
    CHECK(plait_symbol_parse(text, &out) != PLAIT_OK && plait_last_error()[0] != '\0');
  }
  for (size_t at = 0; at < length; ++at) {
    memcpy(text, json, length + 1);
    text[at] = text[at] == '9' ? '0' : '9';
    if (plait_symbol_parse(text, &out) == PLAIT_OK) plait_symbol_free(out);
    out = NULL;
  }
  plait_symbol_free(x);
}

void test_symbols(const char* folder) {
  plait_symbol *net = perceptron(), *again = NULL, *inside = NULL, *one = NULL;
  int count = 0;
  const char *json = NULL, *other = NULL;
  OK(plait_symbol_count(net, PLAIT_ARGUMENTS, &count));
  CHECK(count == 6);
  check_name(net, PLAIT_ARGUMENTS, 1, "fc1_weight");
  check_name(net, PLAIT_ARGUMENTS, 5, "softmax_label");
  check_name(net, PLAIT_OUTPUTS, 0, "softmax_output");
  OK(plait_symbol_count(net, PLAIT_AUXILIARY, &count));
  CHECK(count == 0);

  char path[500];
  snprintf(path, sizeof path, "%s/c-symbol.json", folder);
  OK(plait_symbol_save(net, path));
  OK(plait_symbol_load(path, &again));
  OK(plait_symbol_json(net, &json));
  OK(plait_symbol_json(again, &other));
  CHECK(strcmp(json, other) == 0);
  FAILS(plait_symbol_save(net, "/nowhere/x.json"), PLAIT_IO_ERROR, "/nowhere");

  OK(plait_symbol_internals(net, &inside));
  OK(plait_symbol_count(inside, PLAIT_OUTPUTS, &count));
  CHECK(count == 10);
  OK(plait_symbol_output(inside, 3, &one));
  check_name(one, PLAIT_OUTPUTS, 0, "fc1_output");
  plait_symbol *both[] = {net, one}, *group = NULL;
  OK(plait_symbol_group(2, both, &group));
  check_name(group, PLAIT_OUTPUTS, 1, "fc1_output");

  /* A name is made up; inputs by name. */
  plait_symbol *w = NULL, *made = NULL;
  const char *input = "weight", *key = "num_hidden", *value = "4";
  OK(plait_symbol_variable("w", &w));
  OK(plait_symbol_make("FullyConnected", NULL, 1, &key, &value, 1, &input, &w, &made));
  check_name(made, PLAIT_ARGUMENTS, 0, "fullyconnected0_data");
  check_name(made, PLAIT_ARGUMENTS, 1, "w");

  test_inference(net);
  test_bad_symbols(net, json);
  plait_symbol* all[] = {net, again, inside, one, group, w, made, NULL};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) plait_symbol_free(all[i]);
}

/* Which side of a line through the origin points are on. */
static void fill(float* points, float* labels, int count) {
  unsigned state = 12345;
  for (int i = 0; i < 2 * count; ++i) {
    state = state * 1103515245u + 12345u;
    points[i] = (float)((state >> 16) & 0x7fff) / 16384.0f - 1.0f;
  }
  for (int i = 0; i < count; ++i)
    labels[i] = points[2 * i] > 0.5f * points[2 * i + 1] ? 1.0f : 0.0f;
}

static plait_params* train(const plait_symbol* net, const float* points,
                           const float* labels) {
  const int64_t sizes[] = {64, 2};
  const plait_named_shape shape = {"data", 2, sizes};
  const char *keys[] = {"learning_rate", "momentum"}, *values[] = {"0.5", "0.9"};
  plait_executor* executor = NULL;
  plait_optimizer* sgd = NULL;
  plait_params* params = NULL;
  int count = 0;
  OK(plait_executor_bind(net, NULL, 1, &shape, PLAIT_GRADIENTS_PARAMETERS, &executor));
  OK(plait_optimizer_create("sgd", 2, keys, values, &sgd));
  OK(plait_params_create(&params));
  OK(plait_seed(1));
  OK(plait_symbol_count(net, PLAIT_ARGUMENTS, &count));
  for (int i = 1; i + 1 < count; ++i) { /* but for data and label */
    const char* name = NULL;
    char key[100];
    plait_ndarray* x = NULL;
    OK(plait_symbol_name(net, PLAIT_ARGUMENTS, i, &name));
    OK(plait_executor_array(executor, name, &x));
    OK(plait_ndarray_initialize(x, name, "xavier"));
    snprintf(key, sizeof key, "arg:%s", name);
    OK(plait_params_set(params, key, x));
    plait_ndarray_free(x);
  }
  OK(plait_executor_set_input(executor, "data", points, 128 * sizeof(float)));
  OK(plait_executor_set_input(executor, "softmax_label", labels, 64 * sizeof(float)));
  for (int step = 0; step < 200; ++step) {
    OK(plait_executor_forward(executor, 1));
    OK(plait_executor_backward(executor, 0, NULL));
    OK(plait_optimizer_step(sgd, executor));
  }
  OK(plait_optimizer_set(sgd, "learning_rate", "0.1"));

  uint64_t none = 0, shared = 0, bound = 0;
  OK(plait_executor_memory(executor, 1, PLAIT_PLAN_NONE, &none));
  OK(plait_executor_memory(executor, 1, PLAIT_PLAN_BOTH, &shared));
  OK(plait_executor_memory(executor, 1, PLAIT_PLAN_LOWER_BOUND, &bound));
  CHECK(bound > 0 && bound <= shared && shared < none);

  plait_ndarray *gradient = NULL, *weight = NULL;
  FAILS(plait_executor_gradient(executor, "data", &gradient), PLAIT_VALUE_ERROR,
        "data has no gradient");
  FAILS(plait_executor_gradient(executor, "dada", &gradient), PLAIT_VALUE_ERROR,
        "dada");
  OK(plait_executor_gradient(executor, "fc1_bias", &gradient));
  OK(plait_executor_array(executor, "fc1_bias", &weight));
  CHECK(fabsf(element(gradient, 0)) < 1);
  OK(plait_optimizer_update(sgd, "fc1_bias", weight, gradient));
  FAILS(plait_optimizer_set(sgd, "learning", "0.1"), PLAIT_TYPE_ERROR, "learning");
  FAILS(plait_optimizer_set(sgd, "momentum", "fast"), PLAIT_VALUE_ERROR, "fast");
  plait_ndarray_free(gradient);
  plait_ndarray_free(weight);
  plait_optimizer_free(sgd);
  plait_executor_free(executor); /* params keep the arrays */
  return params;
}

static void test_prediction(const plait_symbol* net, const plait_params* params,
                            const float* points, const float* labels) {
  const int64_t sizes[] = {32, 2};
  const plait_named_shape shape = {"data", 2, sizes};
  plait_executor* executor = NULL;
  plait_ndarray *output = NULL, *head = NULL;
  OK(plait_executor_bind(net, params, 1, &shape, PLAIT_GRADIENTS_NONE, &executor));
  OK(plait_executor_output(executor, 0, &output));
  int right = 0;
  for (int half = 0; half < 2; ++half) {
    OK(plait_executor_set_input(executor, "data", points + 64 * half,
                                64 * sizeof(float)));
    OK(plait_executor_forward(executor, 0));
    for (int i = 0; i < 32; ++i) {
      const float guess = element(output, 2 * i + 1) > element(output, 2 * i);
      right += guess == labels[32 * half + i];
    }
  }
  CHECK(right >= 62);
  FAILS(plait_executor_set_input(executor, "data", points, 100), PLAIT_VALUE_ERROR,
        "float32 (32, 2)");
  FAILS(plait_executor_set_input(executor, "date", points, 256), PLAIT_VALUE_ERROR,
        "date");
  FAILS(plait_executor_output(executor, 1, &head), PLAIT_INDEX_ERROR, "index 1");
  plait_ndarray_free(output);
  plait_executor_free(executor);
}

static void test_bad_binding(const plait_symbol* net, plait_params* params) {
  const int64_t sizes[] = {32, 2}, three[] = {32, 3}, negative[] = {-1, 2};
  plait_named_shape shapes[] = {{"data", 2, sizes}, {"data", 2, sizes}};
  plait_executor* out = NULL;
  FAILS(plait_executor_bind(net, params, 2, shapes, 0, &out), PLAIT_VALUE_ERROR,
        "data is given twice");
  FAILS(plait_executor_bind(net, params, 1, shapes, 3, &out), PLAIT_VALUE_ERROR,
        "gradients is 3");
  FAILS(plait_executor_bind(net, params, 0, NULL, 0, &out), PLAIT_VALUE_ERROR,
        "no array for data");
  FAILS(plait_executor_bind(net, NULL, 0, NULL, 0, &out), PLAIT_VALUE_ERROR, "data");
  shapes[0].sizes = negative;
  FAILS(plait_executor_bind(net, params, 1, shapes, 0, &out), PLAIT_VALUE_ERROR,
        "a size is -1");
  shapes[0].sizes = three;
  FAILS(plait_executor_bind(net, params, 1, shapes, 0, &out), PLAIT_VALUE_ERROR,
        "array of fc1_weight has shape (16, 2); shape (16, 3)");
  shapes[0].sizes = sizes;
  shapes[0].name = "input";
  FAILS(plait_executor_bind(net, params, 1, shapes, 0, &out), PLAIT_VALUE_ERROR,
        "there is no variable input");
  shapes[0].name = "data";

  /* A parameter that is missing is no array of zeros. */
  plait_params* some = NULL;
  plait_ndarray* x = NULL;
  OK(plait_params_create(&some));
  OK(plait_params_get(params, "arg:fc1_weight", &x));
  OK(plait_params_set(some, "arg:fc1_weight", x));
  FAILS(plait_executor_bind(net, some, 1, shapes, 0, &out), PLAIT_VALUE_ERROR,
        "no array for fc1_bias");
  CHECK(out == NULL);

  OK(plait_executor_bind(net, params, 1, shapes, PLAIT_GRADIENTS_ALL, &out));
  OK(plait_executor_forward(out, 1));
  OK(plait_executor_backward(out, 0, NULL));
  OK(plait_executor_backward(out, 0, NULL)); /* its forward part runs again */
  OK(plait_executor_forward(out, 1));
  plait_ndarray* heads[] = {x, x};
  FAILS(plait_executor_backward(out, 2, heads), PLAIT_VALUE_ERROR, "2 head gradients");
  FAILS(plait_executor_backward(out, 1, heads), PLAIT_VALUE_ERROR, "head gradient 0");
  uint64_t bytes = 0;
  FAILS(plait_executor_memory(out, 0, 5, &bytes), PLAIT_VALUE_ERROR, "what is 5");
  plait_optimizer* none = NULL;
  const char *key = "speed", *value = "1";
  FAILS(plait_optimizer_create("sdg", 0, NULL, NULL, &none), PLAIT_VALUE_ERROR, "sdg");
  FAILS(plait_optimizer_create("sgd", 1, &key, &value, &none), PLAIT_TYPE_ERROR,
        "speed");
  plait_executor_free(out);
  plait_params_free(some);
  plait_ndarray_free(x);
}

/* Several threads, each with an executor over the same symbol and parameters. */
struct task {
  const plait_symbol* net;
  const plait_params* params;
  const float* points;
  float first;
  int failed;
};

static void* predict_many(void* argument) {
  struct task* task = argument;
  const int64_t sizes[] = {32, 2};
  const plait_named_shape shape = {"data", 2, sizes};
  plait_executor* executor = NULL;
  plait_ndarray* output = NULL;
  float probabilities[64];
  int status = plait_executor_bind(task->net, task->params, 1, &shape, 0, &executor) |
               plait_executor_output(executor, 0, &output);
  for (int i = 0; i < 50; ++i) {
    status |= plait_executor_set_input(executor, "data", task->points, 256) |
              plait_executor_forward(executor, 0) |
              plait_ndarray_copy_to(output, probabilities, sizeof probabilities);
    if (i == 0) task->first = probabilities[0];
    task->failed |= status != PLAIT_OK || probabilities[0] != task->first;
  }
  plait_ndarray_free(output);
  plait_executor_free(executor);
  return NULL;
}

static void test_threads(const plait_symbol* net, const plait_params* params,
                         const float* points) {
  struct task tasks[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    const struct task task = {net, params, points, 0, 0};
    tasks[i] = task;
    CHECK(pthread_create(&threads[i], NULL, predict_many, &tasks[i]) == 0);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; ++i)
    CHECK(!tasks[i].failed && tasks[i].first == tasks[0].first);
}

void test_executors(void) {
  float points[128], labels[64];
  fill(points, labels, 64);
  plait_symbol* net = perceptron();
  plait_params* params = train(net, points, labels);
  test_prediction(net, params, points, labels);
  test_threads(net, params, points);
  test_bad_binding(net, params);
  plait_params_free(params);
  plait_symbol_free(net);
}
