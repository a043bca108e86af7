/* Checks for the tests of plait.h: they print what is wrong and go on. */
#ifndef PLAIT_TESTS_CAPI_CHECK_H_
#define PLAIT_TESTS_CAPI_CHECK_H_

#include <plait/plait.h>

extern int failures;

void check_true(int condition, const char* text, const char* file, int line);
void check_ok(int status, const char* text, const char* file, int line);
void check_fails(int status, int kind, const char* part, const char* text,
                 const char* file, int line);

#define CHECK(condition) check_true(condition, #condition, __FILE__, __LINE__)
/* The call succeeds. */
#define OK(call) check_ok(call, #call, __FILE__, __LINE__)
/* The call returns the kind of error, and the message has the part in it. */
#define FAILS(call, kind, part) check_fails(call, kind, part, #call, __FILE__, __LINE__)

/* A float32 array; sizes end with -1. */
plait_ndarray* floats(const float* data, int64_t first, ...);
/* One output of an operator on up to two arrays, with up to one parameter. */
plait_ndarray* call(const char* op, plait_ndarray* x, plait_ndarray* y, const char* key,
                    const char* value);
/* Element i of a float32 array of at most 4096. */
float element(const plait_ndarray* x, int i);

void test_arrays(void);
void test_operators(void);
void test_params(const char* folder);
void test_symbols(const char* folder);
void test_executors(void);
void test_handles(void);
void test_nulls(void);

#endif
