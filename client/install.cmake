# What `cmake --install` puts where others find it: find_package(Steadystate)
# and Steadystate::client. Of the component `development`; programs are of
# `runtime`, so that an image has them alone.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Steadystate)

set_target_properties(steadystate_client PROPERTIES EXPORT_NAME client)
set_target_properties(steadystate_proto PROPERTIES EXPORT_NAME proto)
target_compile_features(steadystate_client PUBLIC cxx_std_20)
target_include_directories(
  steadystate_client INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Google's messages and gRPC's service have a folder of their own: other
# packages install headers of the same names.
set(third_party ${CMAKE_INSTALL_INCLUDEDIR}/steadystate/third_party)
target_include_directories(
  steadystate_proto
  INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
            $<INSTALL_INTERFACE:${third_party}>)

install(
  TARGETS steadystate_client steadystate_proto
  EXPORT SteadystateTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(
  EXPORT SteadystateTargets
  NAMESPACE Steadystate::
  DESTINATION ${package_dir}
  COMPONENT development)
install(
  FILES ${client_headers}
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/steadystate
  COMPONENT development)
set(generated ${PROJECT_BINARY_DIR}/proto/gen)
install(
  DIRECTORY ${generated}/steadystate/v1
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/steadystate
  COMPONENT development
  FILES_MATCHING
  PATTERN *.h)
install(
  DIRECTORY ${generated}/google ${generated}/grpc
  DESTINATION ${third_party}
  COMPONENT development
  FILES_MATCHING
  PATTERN *.h
  PATTERN reflection EXCLUDE)

configure_package_config_file(
  SteadystateConfig.cmake.in SteadystateConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# While the major version is 0, minor versions may break callers.
write_basic_package_version_file(SteadystateConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES ${CMAKE_CURRENT_BINARY_DIR}/SteadystateConfig.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/SteadystateConfigVersion.cmake
  DESTINATION ${package_dir}
  COMPONENT development)
