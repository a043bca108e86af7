// What the tests of all rooms share: files of their own, and texts of errors.

#ifndef PLAIT_BASE_TESTING_H_
#define PLAIT_BASE_TESTING_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/error.h"

namespace plait {

// Tests run at the same time, each in its own process, in one folder: the name has the
// process and the test in it. The test removes what it writes there.
inline std::string TestFile(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "plait_" + std::to_string(::getpid()) + "_" +
         (test == nullptr ? "" : test->name()) + "_" + name;
}

// The text of the Error that f throws, or "".
template <typename F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace plait

#endif  // PLAIT_BASE_TESTING_H_
