// Memory that code outside the engine may write at any time: borrowed, or lent out.
//
// The versions of Vars say nothing about such memory. Thread safety: all of this may be
// called from any thread.

#ifndef PLAIT_NDARRAY_OUTSIDE_H_
#define PLAIT_NDARRAY_OUTSIDE_H_

#include "ndarray/chunk.h"

namespace plait {

// The chunk borrows its memory, or is lent to another library now.
bool IsKnownOutside(const Chunk& chunk);

// Another library may use the memory from here on until as many calls of EndLending. It
// may have written: call NoteWrite before the end.
void BeginLending(const Chunk& chunk);
void EndLending(const Chunk& chunk) noexcept;

// Gives the memory a new version, after the reads and writes that were pushed so far.
void NoteWrite(const Ref<Chunk>& chunk);

}  // namespace plait

#endif  // PLAIT_NDARRAY_OUTSIDE_H_
