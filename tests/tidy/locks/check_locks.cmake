# The preset `tsa`: compilers only read the sources, to check that whatever a
# mutex guards is reached with that mutex held (ABSL_GUARDED_BY and its like),
# and what is linked from that is empty. Nothing that it builds can be run.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "Clang alone checks what mutexes guard, and the compiler "
                      "is ${CMAKE_CXX_COMPILER_ID}: use the preset tsa")
endif()
set(CMAKE_CXX_COMPILE_OBJECT
    "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE>"
    "<CMAKE_COMMAND> -E touch <OBJECT>")
foreach(rule CREATE_STATIC_LIBRARY CREATE_SHARED_MODULE LINK_EXECUTABLE)
  set(CMAKE_CXX_${rule} "<CMAKE_COMMAND> -E touch <TARGET>")
endforeach()
unset(CMAKE_CXX_COMPILER_LAUNCHER)  # ccache keeps nothing of this
# GCC's warnings are for the other presets.
target_compile_options(steadystate_options INTERFACE -Wno-everything
                                                     -Wthread-safety -Werror)
