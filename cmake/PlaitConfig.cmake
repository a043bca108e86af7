# find_package(Plait): the target Plait::plait, with the headers as "engine/engine.h".
include(${CMAKE_CURRENT_LIST_DIR}/PlaitTargets.cmake)
