# The C++ tests: src/ROOM/**/x_test.cc become the program ROOM_tests, one ctest a case.
#
# `plait_tests` builds them all; `ctest -L engine` runs those of one room.
find_package(GTest REQUIRED)
include(GoogleTest)

add_custom_target(plait_tests)
foreach(room ${ROOMS})
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS src/${room}/*_test.cc)
  if(NOT PLAIT_USE_ONEDNN)
    list(FILTER tests EXCLUDE REGEX "/cpu/onednn/")
  endif()
  if(NOT tests)
    continue()
  endif()
  add_executable(${room}_tests ${tests})
  target_link_libraries(${room}_tests PRIVATE plait plait_flags ${HWY}
    GTest::gtest_main)
  gtest_discover_tests(${room}_tests DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${room} TIMEOUT 300)
  add_dependencies(plait_tests ${room}_tests)
endforeach()

# Every operator by its samples, with both engines. One ctest each, as thousands of
# processes would cost more than the tests: operator_tests --gtest_filter='*/softmax'.
file(GLOB tests CONFIGURE_DEPENDS tests/ops/*_test.cc)
add_executable(operator_tests ${tests})
target_include_directories(operator_tests PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(operator_tests PRIVATE plait plait_flags GTest::gtest_main)
foreach(engine threaded serial)
  add_test(NAME Operators.${engine} COMMAND operator_tests --gtest_brief=1)
  set_tests_properties(Operators.${engine} PROPERTIES
    LABELS operators ENVIRONMENT PLAIT_ENGINE=${engine} TIMEOUT 900)
endforeach()
add_dependencies(plait_tests operator_tests)

# The C interface from a program that a C compiler builds.
file(GLOB tests CONFIGURE_DEPENDS tests/capi/*.c)
add_executable(c_test ${tests})
set_target_properties(c_test PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF
  LINKER_LANGUAGE CXX)  # with a sanitizer's run time, where there is one
target_compile_options(c_test PRIVATE -pedantic -Wall -Wextra -Werror)
target_link_libraries(c_test PRIVATE plait Threads::Threads m)
add_test(NAME CApi.WorksFromC COMMAND c_test ${CMAKE_BINARY_DIR})
set_tests_properties(CApi.WorksFromC PROPERTIES LABELS capi TIMEOUT 120)
add_dependencies(plait_tests c_test)

# The same beside other allocators: one that marks what it gives, and those that are here.
if(CMAKE_SYSTEM_NAME STREQUAL Linux AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_library(marking_allocator MODULE tests/preload/allocator.c)
  set_target_properties(marking_allocator PROPERTIES PREFIX "")
  add_dependencies(plait_tests marking_allocator)
  set(PRELOADED_marking $<TARGET_FILE:marking_allocator>)
  find_library(PRELOADED_jemalloc NAMES jemalloc libjemalloc.so.2)
  find_library(PRELOADED_tcmalloc NAMES tcmalloc_minimal libtcmalloc_minimal.so.4)
  foreach(allocator marking jemalloc tcmalloc)
    if(PRELOADED_${allocator})
      file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/preload_${allocator})
      add_test(NAME CApi.WorksBesideAllocator.${allocator}
        COMMAND c_test ${CMAKE_BINARY_DIR}/preload_${allocator})
      set_tests_properties(CApi.WorksBesideAllocator.${allocator} PROPERTIES
        LABELS capi TIMEOUT 120 ENVIRONMENT LD_PRELOAD=${PRELOADED_${allocator}})
    endif()
  endforeach()
endif()

# One rank of a job, which tests/distributed starts under mpirun.
add_executable(transport_check tests/distributed/transport_check.cc)
target_link_libraries(transport_check PRIVATE plait plait_flags)
add_dependencies(plait_tests transport_check)

# What ranks send, by the cost model of stores (docs/design/kvstore.md).
add_executable(kvstore_model tools/kvstore_model.cc)
target_link_libraries(kvstore_model PRIVATE plait plait_flags)

# docs/options.md is what the options table says; the test fails where it is stale.
add_executable(options_doc tools/options_doc.cc)
target_link_libraries(options_doc PRIVATE plait plait_flags)
add_custom_target(docs COMMENT "Writing docs/options.md"
  COMMAND options_doc > ${CMAKE_SOURCE_DIR}/docs/options.md)
add_test(NAME Docs.OptionsPageIsFresh
  COMMAND options_doc --check ${CMAKE_SOURCE_DIR}/docs/options.md)

# A program outside the tree finds the installed package, builds and runs.
add_test(NAME Install.FindPackageBuildsAndRuns
  COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR}
    -D SOURCE=${CMAKE_SOURCE_DIR}/tests/install
    -D EXAMPLES=${CMAKE_SOURCE_DIR}/examples/cpp
    -D CXX=${CMAKE_CXX_COMPILER} "-D FLAGS=${CMAKE_CXX_FLAGS}"
    -P ${CMAKE_SOURCE_DIR}/tests/install/run.cmake)

# The installed Python package works with the libraries beside it.
if(PLAIT_BUILD_PYTHON AND PLAIT_BUNDLE_LIBRARIES)
  add_test(NAME Install.PackageBringsItsLibraries
    COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR} -D PYTHON=${Python_EXECUTABLE}
      -D SCRIPT=${CMAKE_SOURCE_DIR}/tests/install/libraries.py
      -P ${CMAKE_SOURCE_DIR}/tests/install/package.cmake)
endif()
