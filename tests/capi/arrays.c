/* Arrays, operators and named arrays from C. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void test_arrays(void) {
  const float data[] = {0, 1, 2, 3, 4, 5};
  const int64_t three_two[] = {3, 2}, seven[] = {7}, negative[] = {2, -1};
  const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
  const int64_t large[] = {INT64_C(1) << 61};
  const int64_t *sizes = NULL, none[] = {0, 4};
  plait_ndarray *x = floats(data, 2, 3, -1), *y = NULL, *z = NULL;
  int rank = 0, dtype = -1;
  int64_t elements = 0;
  size_t bytes = 0;
  OK(plait_ndarray_shape(x, &rank, &sizes));
  CHECK(rank == 2 && sizes[0] == 2 && sizes[1] == 3);
  OK(plait_ndarray_dtype(x, &dtype));
  CHECK(dtype == PLAIT_FLOAT32);
  OK(plait_ndarray_size(x, &elements, &bytes));
  CHECK(elements == 6 && bytes == 24);
  CHECK(element(x, 4) == 4);

  /* Views see what is written to the array. */
  OK(plait_ndarray_reshape(x, three_two, 2, &y));
  OK(plait_ndarray_slice(y, 1, 2, &z));
  const float tens[] = {0, 10, 20, 30, 40, 50};
  OK(plait_ndarray_copy_from(x, tens, sizeof tens));
  CHECK(element(z, 0) == 20 && element(z, 1) == 30);
  plait_ndarray_free(x); /* the views live on */
  CHECK(element(y, 5) == 50);

  /* Zeros, scalars, arrays without elements. */
  plait_ndarray *zeros = NULL, *scalar = NULL, *empty = NULL;
  OK(plait_ndarray_create(three_two, 2, PLAIT_FLOAT32, NULL, &zeros));
  CHECK(element(zeros, 5) == 0);
  OK(plait_ndarray_create(NULL, 0, PLAIT_FLOAT32, data + 2, &scalar));
  CHECK(element(scalar, 0) == 2);
  OK(plait_ndarray_create(none, 2, PLAIT_INT64, NULL, &empty));
  OK(plait_ndarray_size(empty, &elements, &bytes));
  CHECK(elements == 0 && bytes == 0);
  OK(plait_ndarray_copy_to(empty, NULL, 0));

  plait_ndarray* out = NULL;
  FAILS(plait_ndarray_create(negative, 2, 0, NULL, &out), PLAIT_VALUE_ERROR,
        "a size is -1");
  FAILS(plait_ndarray_create(huge, 2, 0, NULL, &out), PLAIT_VALUE_ERROR, "below 2^63");
  FAILS(plait_ndarray_create(large, 1, 1, NULL, &out), PLAIT_MEMORY_ERROR, "too large");
  FAILS(plait_ndarray_create(seven, -1, 0, NULL, &out), PLAIT_VALUE_ERROR,
        "rank is -1");
  FAILS(plait_ndarray_create(seven, 65, 0, NULL, &out), PLAIT_VALUE_ERROR,
        "rank is 65");
  FAILS(plait_ndarray_create(seven, 1, 13, NULL, &out), PLAIT_TYPE_ERROR,
        "dtype is 13");
  FAILS(plait_ndarray_copy_to(y, &rank, sizeof rank), PLAIT_VALUE_ERROR,
        "24 were expected");
  FAILS(plait_ndarray_copy_from(y, tens, 23), PLAIT_VALUE_ERROR, "float32 (3, 2)");
  FAILS(plait_ndarray_reshape(y, seven, 1, &out), PLAIT_VALUE_ERROR, "6 elements");
  FAILS(plait_ndarray_slice(y, 2, 4, &out), PLAIT_INDEX_ERROR, "rows 2 to 4");
  FAILS(plait_ndarray_slice(y, 2, 1, &out), PLAIT_INDEX_ERROR, "rows 2 to 1");
  FAILS(plait_ndarray_slice(scalar, 0, 1, &out), PLAIT_VALUE_ERROR, "scalar");
  FAILS(plait_ndarray_initialize(y, "fc1_weight", "guess"), PLAIT_VALUE_ERROR, "guess");
  FAILS(plait_ndarray_initialize(y, "what", "xavier"), PLAIT_VALUE_ERROR, "what");
  CHECK(out == NULL);
  OK(plait_ndarray_initialize(y, "fc1_gamma", "xavier"));
  CHECK(element(y, 3) == 1);
  OK(plait_ndarray_initialize(y, "fc1_weight", "[\"constant\", {\"value\": 3}]"));
  CHECK(element(y, 3) == 3);
  plait_ndarray_free(y);
  plait_ndarray_free(z);
  plait_ndarray_free(zeros);
  plait_ndarray_free(scalar);
  plait_ndarray_free(empty);
  plait_ndarray_free(NULL);
}

/* What a convolution gives may lie in another order inside; nobody sees that. */
static void test_order_of_results(void) {
  enum { kChannels = 64, kPixels = 144, kSize = 4 * kChannels * kPixels };
  const int64_t flat[] = {kSize};
  float* x = malloc(sizeof(float) * kSize);
  float* w = calloc(kChannels * kChannels * 9, sizeof(float));
  float* y = malloc(sizeof(float) * kSize);
  for (int i = 0; i < kSize; ++i) x[i] = (float)(i % 9973) / 512 + 1;
  for (int i = 0; i < kChannels; ++i) w[(i * kChannels + i) * 9 + 4] = 1;
  plait_ndarray* in[] = {floats(x, 4, kChannels, 12, 12, -1),
                         floats(w, kChannels, kChannels, 3, 3, -1)};
  const char *keys[] = {"kernel", "pad", "num_filter", "no_bias"},
             *values[] = {"(3, 3)", "(1, 1)", "64", "True"};
  for (int way = 0; way < 3; ++way) { /* at once, by a view, after a write */
    plait_ndarray *out = NULL, *view = NULL, *last = NULL;
    int room = 1;
    OK(plait_operator_invoke("Convolution", 2, in, 4, keys, values, &room, &out));
    if (way == 1) OK(plait_ndarray_reshape(out, flat, 1, &view));
    if (way == 2) {
      OK(plait_ndarray_slice(out, 3, 4, &last));
      OK(plait_ndarray_copy_from(last, x, sizeof(float) * kSize / 4));
    }
    OK(plait_ndarray_copy_to(view ? view : out, y, sizeof(float) * kSize));
    int wrong = 0;
    for (int i = 0; i < kSize; ++i) {
      const float wanted = way == 2 && i >= kSize / 4 * 3 ? x[i - kSize / 4 * 3] : x[i];
      wrong += fabsf(y[i] - wanted) > 1e-3f;
    }
    CHECK(wrong == 0);
    plait_ndarray_free(out);
    plait_ndarray_free(view);
    plait_ndarray_free(last);
  }
  plait_ndarray_free(in[0]);
  plait_ndarray_free(in[1]);
  free(x);
  free(w);
  free(y);
}

void test_operators(void) {
  test_order_of_results();
  const float data[] = {1, -2, 3, -4, 5, -6};
  plait_ndarray *x = floats(data, 2, 3, -1), *w = floats(data, 6, -1);
  plait_ndarray* y = call("relu", x, NULL, NULL, NULL);
  CHECK(element(y, 1) == 0 && element(y, 2) == 3);
  plait_ndarray* s = call("sum", x, NULL, "axis", "1");
  CHECK(element(s, 0) == 2 && element(s, 1) == -5);
  plait_ndarray* t = call("dot", x, y, "transpose_b", "True");
  CHECK(element(t, 0) == 10);

  /* Several outputs, and too little room for them. */
  const char *keys[] = {"num_outputs", "axis"}, *values[] = {"3", "1"};
  plait_ndarray *parts[3] = {NULL, NULL, NULL}, *one = NULL;
  int room = 2, inputs = 1;
  FAILS(plait_operator_invoke("split", 1, &x, 2, keys, values, &room, parts),
        PLAIT_VALUE_ERROR, "room for 2 outputs of");
  CHECK(parts[0] == NULL && room == 2);
  room = 3;
  OK(plait_operator_invoke("split", 1, &x, 2, keys, values, &room, parts));
  CHECK(room == 3 && element(parts[2], 1) == -6);

  /* Into an array that exists, and is an input. */
  plait_ndarray* pair[] = {w, w};
  const char *lr = "lr", *tenth = "0.5";
  OK(plait_operator_invoke_into("sgd_update", 2, pair, 1, &lr, &tenth, 1, &w));
  CHECK(element(w, 0) == 0.5f && element(w, 5) == -3);
  FAILS(plait_operator_invoke_into("relu", 1, &x, 0, NULL, NULL, 1, &w),
        PLAIT_VALUE_ERROR, "shape (6,)");
  FAILS(plait_operator_invoke_into("relu", 1, &x, 0, NULL, NULL, 0, NULL),
        PLAIT_VALUE_ERROR, "0 outputs are given");

  /* Bad calls. */
  room = 1;
  FAILS(plait_operator_invoke("rellu", 1, &x, 0, NULL, NULL, &room, &one),
        PLAIT_VALUE_ERROR, "relu");
  FAILS(plait_operator_invoke("relu", 2, pair, 0, NULL, NULL, &room, &one),
        PLAIT_TYPE_ERROR, "got 2 arrays");
  FAILS(plait_operator_invoke("relu", -1, pair, 0, NULL, NULL, &room, &one),
        PLAIT_VALUE_ERROR, "inputs is -1");
  FAILS(plait_operator_invoke("relu", 1, &x, 1, &lr, &tenth, &room, &one),
        PLAIT_TYPE_ERROR, "lr");
  const char *twice[] = {"axis", "axis"}, *some[] = {"0", "1"}, *gone[] = {"0", NULL};
  FAILS(plait_operator_invoke("sum", 1, &x, 2, twice, some, &room, &one),
        PLAIT_TYPE_ERROR, "axis is given twice");
  FAILS(plait_operator_invoke("sum", 1, &x, 2, twice, gone, &room, &one),
        PLAIT_VALUE_ERROR, "is NULL");
  const char *axis = "axis", *word = "sideways", *far = "7";
  FAILS(plait_operator_invoke("sum", 1, &x, 1, &axis, &word, &room, &one),
        PLAIT_VALUE_ERROR, "sideways");
  FAILS(plait_operator_invoke("softmax", 1, &x, 1, &axis, &far, &room, &one),
        PLAIT_INDEX_ERROR, "axis 7");
  plait_ndarray* misfit[] = {x, w};
  FAILS(plait_operator_invoke("dot", 2, misfit, 0, NULL, NULL, &room, &one),
        PLAIT_VALUE_ERROR, "(2, 3)");
  plait_ndarray* missing[] = {x, NULL};
  FAILS(plait_operator_invoke("dot", 2, missing, 0, NULL, NULL, &room, &one),
        PLAIT_VALUE_ERROR, "inputs[1] is NULL");
  CHECK(one == NULL && inputs == 1);

  /* What only the computation finds is reported by the wait, once. */
  const char *random[] = {"loc", "scale", "shape"}, *bad[] = {"0", "-1", "(2, 2)"};
  if (plait_operator_invoke("_random_normal", 0, NULL, 3, random, bad, &room, &one) ==
      PLAIT_OK) {
    float four[4] = {0, 0, 0, 0};
    FAILS(plait_ndarray_copy_to(one, four, sizeof four), PLAIT_VALUE_ERROR, "scale");
    OK(plait_ndarray_copy_to(one, four, sizeof four));
    CHECK(isnan(four[0]));
    plait_ndarray_free(one);
  }

  /* The seed decides what is drawn. */
  const char *shape = "shape", *five = "(5,)";
  plait_ndarray *a = NULL, *b = NULL;
  OK(plait_seed(7));
  OK(plait_operator_invoke("_random_uniform", 0, NULL, 1, &shape, &five, &room, &a));
  OK(plait_seed(7));
  OK(plait_operator_invoke("_random_uniform", 0, NULL, 1, &shape, &five, &room, &b));
  CHECK(element(a, 4) == element(b, 4) && element(a, 4) != element(a, 3));

  plait_ndarray* all[] = {x, w, y, s, t, a, b, parts[0], parts[1], parts[2]};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) plait_ndarray_free(all[i]);
}

static void write_file(const char* path, const void* data, size_t bytes) {
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(data, 1, bytes, file) == bytes);
  if (file != NULL) fclose(file);
}

void test_params(const char* folder) {
  char path[500], bad[500], bytes[4096];
  snprintf(path, sizeof path, "%s/c.params", folder);
  snprintf(bad, sizeof bad, "%s/bad.params", folder);
  const float data[] = {1, 2, 3};
  plait_ndarray *x = floats(data, 3, -1), *got = NULL;
  plait_params *params = NULL, *loaded = NULL, *none = NULL;
  int count = 0;
  const char* name = NULL;
  OK(plait_params_create(&params));
  OK(plait_params_set(params, "arg:w", x));
  OK(plait_params_set(params, "aux:m", x));
  OK(plait_params_set(params, "arg:w", x)); /* in its place */
  OK(plait_params_count(params, &count));
  CHECK(count == 2);
  OK(plait_params_save(params, path));
  OK(plait_params_load(path, &loaded));
  OK(plait_params_name(loaded, 1, &name));
  CHECK(strcmp(name, "aux:m") == 0);
  OK(plait_params_get(loaded, "arg:w", &got));
  CHECK(element(got, 2) == 3);
  plait_ndarray_free(got);
  plait_params_free(loaded);

  FILE* file = fopen(path, "rb");
  const size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
  if (file != NULL) fclose(file);
  CHECK(size > 50);
  OK(plait_params_parse(bytes, size, &loaded));
  OK(plait_params_count(loaded, &count));
  CHECK(count == 2);

  FAILS(plait_params_get(loaded, "arg:v", &got), PLAIT_VALUE_ERROR, "arg:v");
  FAILS(plait_params_name(loaded, 2, &name), PLAIT_INDEX_ERROR, "index 2");
  FAILS(plait_params_load("/nowhere/x.params", &none), PLAIT_IO_ERROR, "/nowhere");
  FAILS(plait_params_save(params, "/nowhere/x.params"), PLAIT_IO_ERROR, "/nowhere");
  write_file(bad, "no arrays are here", 18);
  FAILS(plait_params_load(bad, &none), PLAIT_IO_ERROR, "bad.params");
  /* Every file that ends too early is refused. */
  for (size_t end = 0; end < size; ++end) {
    const int status = plait_params_parse(bytes, end, &none);
    CHECK(status != PLAIT_OK && strlen(plait_last_error()) > 0);
  }
  /* Damaged bytes are refused or read as other numbers; nothing else happens. */
  for (size_t at = 0; at < size; ++at) {
    bytes[at] = (char)(bytes[at] ^ 0x55);
    if (plait_params_parse(bytes, size, &none) == PLAIT_OK) {
      plait_params_free(none);
      none = NULL;
    }
    bytes[at] = (char)(bytes[at] ^ 0x55);
  }
  CHECK(none == NULL);
  plait_params_free(loaded);
  plait_params_free(params);
  plait_params_free(NULL);
  plait_ndarray_free(x);
}
