// A path for a file of one test, which no other test and no other process has.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace plait {

// Tests run at the same time, each in its own process, in one folder: the name has the
// process and the test in it. The test removes what it writes there.
inline std::string TestFile(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "plait_" + std::to_string(::getpid()) + "_" +
         (test == nullptr ? "" : test->name()) + "_" + name;
}

}  // namespace plait
