# Installs the Python package into an empty folder and looks at the libraries that it uses.
set(work ${BUILD}/package_test)
file(REMOVE_RECURSE ${work})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component python
  --prefix ${work} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${work}
  PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH= ${PYTHON} ${SCRIPT}
  WORKING_DIRECTORY ${work} COMMAND_ERROR_IS_FATAL ANY)
