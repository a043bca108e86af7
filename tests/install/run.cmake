# Installs the build tree into an empty folder, then builds and runs the consumer there.
set(work ${BUILD}/install_test)
file(REMOVE_RECURSE ${work})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --component dev --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${work}/build
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER=${CXX}
    "-D CMAKE_CXX_FLAGS=${FLAGS}" -D CMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
run(${work}/build/consumer_c)

# The C++ examples build in the same way; a short run where the data is there.
run(${CMAKE_COMMAND} -G Ninja -S ${EXAMPLES} -B ${work}/examples
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER=${CXX}
    "-D CMAKE_CXX_FLAGS=${FLAGS}" -D CMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/examples)
foreach(seed 1 2 3)
  run(${work}/examples/xor ${seed})
endforeach()
if(EXISTS /usr/share/datasets/fashion-mnist)
  execute_process(COMMAND ./lenet 1 6400 WORKING_DIRECTORY ${work}/examples
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "test accuracy ([0-9.]+) %" OR CMAKE_MATCH_1 LESS 70)
    message(FATAL_ERROR "lenet has learnt too little: ${text}")
  endif()
endif()
