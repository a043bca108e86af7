/* An allocator to be preloaded: everything that a program allocates has a mark before
 * it, so that what another allocator gave is not freed here unnoticed, and new memory
 * is filled, so that nobody counts on zeros. */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void* __libc_malloc(size_t size);
void __libc_free(void* memory);

struct mark {
  uint64_t magic;
  size_t size;
  void* whole;
};

static const uint64_t kMagic = 0x506c616974210001u;

static struct mark* mark_of(void* memory) {
  struct mark* mark = (struct mark*)memory - 1;
  if (mark->magic != kMagic) abort(); /* from elsewhere, or freed twice */
  return mark;
}

static void* allocate(size_t alignment, size_t size) {
  if (alignment < 16) alignment = 16;
  const size_t more = alignment + sizeof(struct mark);
  void* whole = size > SIZE_MAX - more ? NULL : __libc_malloc(size + more);
  if (whole == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  const uintptr_t first = (uintptr_t)whole + sizeof(struct mark);
  void* memory = (void*)((first + alignment - 1) / alignment * alignment);
  const struct mark mark = {kMagic, size, whole};
  ((struct mark*)memory)[-1] = mark;
  memset(memory, 0xa5, size);
  return memory;
}

void* malloc(size_t size) {
  return allocate(16, size);
}

void free(void* memory) {
  if (memory == NULL) return;
  struct mark* mark = mark_of(memory);
  mark->magic = 0;
  memset(memory, 0x5a, mark->size);
  __libc_free(mark->whole);
}

void* calloc(size_t count, size_t size) {
  size_t total;
  if (__builtin_mul_overflow(count, size, &total)) {
    errno = ENOMEM;
    return NULL;
  }
  void* memory = allocate(16, total);
  return memory == NULL ? NULL : memset(memory, 0, total);
}

void* realloc(void* old, size_t size) {
  void* memory = allocate(16, size);
  if (memory != NULL && old != NULL) {
    const size_t before = mark_of(old)->size;
    memcpy(memory, old, before < size ? before : size);
    free(old);
  }
  return memory;
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  const int before = errno;
  void* memory = allocate(alignment, size);
  errno = before;
  if (memory == NULL) return ENOMEM;
  *out = memory;
  return 0;
}

void* aligned_alloc(size_t alignment, size_t size) {
  return allocate(alignment, size);
}

void* memalign(size_t alignment, size_t size) {
  return allocate(alignment, size);
}

void* valloc(size_t size) {
  return allocate(4096, size);
}

size_t malloc_usable_size(void* memory) {
  return memory == NULL ? 0 : mark_of(memory)->size;
}
