# What a program says about itself in other forms than --help: its manual page
# and its completions, written whenever the program is linked, and installed as
# the component `documentation` where Debian's man, Bash, zsh and fish look.
#   MAN         the arguments with which it prints its manual page
#   COMPLETION  those that the name of a shell follows
function(steadystate_documents target)
  cmake_parse_arguments(arg "" "" "MAN;COMPLETION" ${ARGN})
  # A build for sanitizers or for the locks' sake is not installed.
  if(STEADYSTATE_SANITIZE OR STEADYSTATE_CHECK_LOCKS)
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/share)
  file(MAKE_DIRECTORY ${folder})
  string(JOIN " " man ${arg_MAN})
  string(JOIN " " completion ${arg_COMPLETION})
  add_custom_command(
    TARGET ${target}
    POST_BUILD
    COMMAND sh -c "$<TARGET_FILE:${target}> ${man} >${target}.1"
    COMMAND sh -c "$<TARGET_FILE:${target}> ${completion} bash >${target}.bash"
    COMMAND sh -c "$<TARGET_FILE:${target}> ${completion} zsh >_${target}"
    COMMAND sh -c "$<TARGET_FILE:${target}> ${completion} fish >${target}.fish"
    WORKING_DIRECTORY ${folder}
    VERBATIM)
  install(FILES ${folder}/${target}.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          COMPONENT documentation)
  install(FILES ${folder}/${target}.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME ${target}
          COMPONENT documentation)
  install(FILES ${folder}/_${target}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
          COMPONENT documentation)
  install(FILES ${folder}/${target}.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT documentation)
endfunction()
