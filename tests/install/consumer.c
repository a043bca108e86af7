/* The smallest program of a user in C: it builds against the installed header. */
#include <plait/plait.h>
#include <stdio.h>

int main(void) {
  const float data[] = {1, 2, 3};
  const int64_t size = 3;
  plait_ndarray *x = NULL, *y = NULL;
  int outputs = 1;
  float total = 0;
  if (plait_ndarray_create(&size, 1, PLAIT_FLOAT32, data, &x) != PLAIT_OK ||
      plait_operator_invoke("sum", 1, &x, 0, NULL, NULL, &outputs, &y) != PLAIT_OK ||
      plait_ndarray_copy_to(y, &total, sizeof total) != PLAIT_OK) {
    fprintf(stderr, "%s\n", plait_last_error());
    return 1;
  }
  printf("plait %s: the sum is %g\n", plait_version(), (double)total);
  plait_ndarray_free(x);
  plait_ndarray_free(y);
  return total != 6;
}
