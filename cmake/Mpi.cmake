# The MPI plug-ins: one source, one library for each MPI that is found.
#
# They stand beside libplait and are loaded by processes that a launcher of that MPI
# started. The plug-in calls C functions only, so the compiler wrappers are not needed.
# Debian has both MPIs side by side; elsewhere PLAIT_OPENMPI_DIR or PLAIT_MPICH_DIR
# names a folder with include/mpi.h and lib/.
set(MPI_PLUGINS)
include(GNUInstallDirs)
foreach(name openmpi mpich)
  string(TOUPPER ${name} upper)
  set(PLAIT_${upper}_DIR "" CACHE PATH "Where ${name} is installed")
  if(CMAKE_LIBRARY_ARCHITECTURE)
    set(debian /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/${name})
  endif()
  set(where PATHS ${PLAIT_${upper}_DIR} ${debian} /usr/lib64/${name} /opt/${name}
    NO_DEFAULT_PATH)
  find_path(${upper}_HEADERS mpi.h ${where}
    PATH_SUFFIXES include /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/${name})
  if(name STREQUAL mpich AND NOT MPICH_HEADERS)
    find_path(MPICH_HEADERS mpi.h PATHS
      /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich NO_DEFAULT_PATH)
  endif()
  if(name STREQUAL openmpi)
    find_library(OPENMPI_LIBRARY NAMES mpi ${where} PATH_SUFFIXES lib)
  else()
    find_library(MPICH_LIBRARY NAMES mpich mpi ${where} PATH_SUFFIXES lib)
    if(NOT MPICH_LIBRARY)
      find_library(MPICH_LIBRARY NAMES mpich)
    endif()
  endif()
  if(NOT ${upper}_HEADERS OR NOT ${upper}_LIBRARY)
    message(STATUS "Without the plug-in for ${name}: its mpi.h or library was not found")
    continue()
  endif()
  add_library(plait_${name} MODULE src/kvstore/mpi/plugin.cc)
  target_include_directories(plait_${name} SYSTEM PRIVATE ${${upper}_HEADERS})
  target_compile_definitions(plait_${name} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(plait_${name} PRIVATE plait_flags ${${upper}_LIBRARY})
  set_target_properties(plait_${name} PROPERTIES CXX_VISIBILITY_PRESET default)
  install(TARGETS plait_${name} COMPONENT python LIBRARY DESTINATION plait
    COMPONENT python)
  install(TARGETS plait_${name} COMPONENT dev
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  list(APPEND MPI_PLUGINS plait_${name})
endforeach()
