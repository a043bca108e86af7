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
