# Run at installation: puts the shared libraries that libplait needs beside it, with their
# licences, so that the Python package works where their packages are not installed.
#
# LIBRARY: libplait as it was built. The loader looks beside libplait for all of them, as
# it has an RPATH (not a RUNPATH, which would not count for what the libraries need
# themselves). glibc and the run time of the compiler remain those of the system.
set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/plait")
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${LIBRARY}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux"
    "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s|asan|ubsan|tsan)\\.so")
if(missing)
  message(FATAL_ERROR "libplait needs libraries that were not found: ${missing}")
endif()

# The file in which Debian keeps a library's licence.
function(find_licence library result)
  cmake_path(GET library FILENAME name)
  file(REAL_PATH ${library} real)
  foreach(path ${library} ${real} /usr${real})
    execute_process(COMMAND dpkg -S ${path} OUTPUT_VARIABLE owner
      ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND owner MATCHES "^([^:, ]+)")
      set(file /usr/share/doc/${CMAKE_MATCH_1}/copyright)
      if(EXISTS ${file})
        set(${result} ${file} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${folder}/licenses)
foreach(library ${libraries})
  cmake_path(GET library FILENAME name)
  message(STATUS "Installing: ${folder}/${name}")
  file(COPY_FILE ${library} ${folder}/${name})
  find_licence(${library} licence)
  if(licence)
    file(COPY_FILE ${licence} ${folder}/licenses/${name}.txt)
  else()
    message(WARNING "The licence of ${library} was not found; add it to the package "
      "before you pass it on")
  endif()
endforeach()
