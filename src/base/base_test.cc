// Tests of the small parts of base: Error, options, SmallVector, Ref.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/options.h"
#include "base/ref.h"
#include "base/small_vector.h"

namespace plait {
namespace {

TEST(Check, ThrowsTheKindWithThePartsPrinted) {
  EXPECT_NO_THROW(Check(true, "never printed"));
  try {
    Check(false, ErrorKind::kIndex, "take: index ", 7, " of ", true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIndex);
    EXPECT_STREQ(error.what(), "take: index 7 of true");
  }
  try {
    Check(false, "clip: bad");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kValue);
  }
}

TEST(Options, EachHasANameOfPlaitOrALauncherAndAMeaning) {
  EXPECT_EQ(OptionTable().size(), static_cast<size_t>(Option::kCount));
  for (const OptionInfo& info : OptionTable()) {
    const std::string name = info.name;
    bool known = false;
    for (const char* prefix : {"PLAIT_", "OMPI_", "PMI_", "PMIX_", "SLURM_"})
      known = known || name.rfind(prefix, 0) == 0;
    EXPECT_TRUE(known) << name;
    EXPECT_FALSE(std::string(info.doc).empty()) << info.name;
  }
}

// A child process, as options are read once.
TEST(Options, RefuseWhatIsNotANumber) {
  EXPECT_EXIT(
      {
        setenv("PLAIT_THREADS", "two", 1);
        try {
          GetOptionInt(Option::kThreads);
        } catch (const Error& error) {
          fprintf(stderr, "%s\n", error.what());
          exit(7);
        }
        exit(0);
      },
      testing::ExitedWithCode(7), "PLAIT_THREADS: 'two' is not a number");
}

TEST(Options, HonourTheOlderNameAndPreferTheirOwn) {
  EXPECT_EXIT(
      {
        setenv("OMP_NUM_THREADS", "3,2", 1);
        setenv("MXNET_ENGINE_TYPE", "NaiveEngine", 1);
        setenv("PLAIT_ENGINE", "threaded", 1);
        const bool good = GetOptionInt(Option::kThreads) == 3 &&
                          GetOption(Option::kEngine) == "threaded";
        exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

using Strings = SmallVector<std::string, 2>;

Strings Made(size_t n) {
  Strings v;
  for (size_t i = 0; i < n; ++i)
    v.push_back(std::string(40, static_cast<char>('a' + i)));
  return v;
}

// Sizes on both sides of what fits inside, in every pair.
TEST(SmallVector, CopiesMovesAndAssigns) {
  for (size_t from = 0; from < 6; ++from) {
    for (size_t to = 0; to < 6; ++to) {
      const Strings source = Made(from);
      Strings target = Made(to);
      target = source;
      Strings moved = std::move(target);
      ASSERT_EQ(moved.size(), from);
      for (size_t i = 0; i < from; ++i) EXPECT_EQ(moved[i], source[i]);
      target = Made(to);  // a moved-from one can be used again
      EXPECT_EQ(target.size(), to);
    }
  }
}

TEST(SmallVector, GrowsShrinksAndDestroys) {
  const auto item = std::make_shared<int>(1);
  SmallVector<std::shared_ptr<int>, 2> v;
  for (int i = 0; i < 20; ++i) v.push_back(item);
  EXPECT_EQ(item.use_count(), 21);
  v.resize(3);
  EXPECT_EQ(item.use_count(), 4);
  v.resize(5);
  EXPECT_EQ(v.back(), nullptr);
  v.clear();
  EXPECT_TRUE(v.empty());
  EXPECT_EQ(item.use_count(), 1);
}

struct Counted : RefCounted<Counted> {
  explicit Counted(int* alive) : alive(alive) { ++*alive; }
  ~Counted() { --*alive; }
  int* alive;
};

TEST(Ref, DeletesWithTheLastReference) {
  int alive = 0;
  Ref<Counted> a = MakeRef<Counted>(&alive);
  EXPECT_TRUE(a->unique());
  Ref<Counted> b = a;
  EXPECT_FALSE(a->unique());
  Ref<Counted> c = std::move(a);
  EXPECT_FALSE(a);
  b = nullptr;
  EXPECT_EQ(alive, 1);
  c = c.get() ? c : b;  // assigning an object to itself keeps it
  EXPECT_EQ(alive, 1);
  c = nullptr;
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace plait
