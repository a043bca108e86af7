# `cmake --install`: the library, its headers, and the package that find_package reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Plait)
# One file name, no chain of links: a wheel holds no links.
set_target_properties(plait PROPERTIES
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(TARGETS plait EXPORT PlaitTargets COMPONENT dev
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev NAMELINK_COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plait)
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plait COMPONENT dev
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY include/plait DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT PlaitTargets NAMESPACE Plait:: DESTINATION ${PACKAGE_DIR} COMPONENT dev)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/PlaitConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/PlaitConfig.cmake ${CMAKE_BINARY_DIR}/PlaitConfigVersion.cmake
  DESTINATION ${PACKAGE_DIR} COMPONENT dev)

# The Python package brings the libraries that it needs.
if(PLAIT_BUNDLE_LIBRARIES AND PLAIT_BUILD_PYTHON AND NOT APPLE)
  target_link_options(plait PRIVATE LINKER:--disable-new-dtags)
  set_target_properties(plait PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(CODE "set(LIBRARY $<TARGET_FILE:plait>)" COMPONENT python)
  install(SCRIPT cmake/Bundle.cmake COMPONENT python)
endif()
