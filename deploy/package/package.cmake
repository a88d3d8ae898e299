# A Debian package of the programs, their manual pages and completions, the
# documents, the demo model and a systemd unit:
#   cmake --build build/release --target steadystate-server steadystate
#   (cd build/release && cpack)
# What it depends on is found in the programs, so it is for the release of
# Debian that it is made on.
set(package_files ${PROJECT_SOURCE_DIR}/deploy/package)
install(
  FILES ${package_files}/steadystate.service
  DESTINATION lib/systemd/system
  COMPONENT package)
install(
  FILES ${package_files}/steadystate.default
  DESTINATION /etc/default
  RENAME steadystate
  COMPONENT package)
install(
  FILES ${PROJECT_SOURCE_DIR}/deploy/models/demo/config.json
        ${PROJECT_SOURCE_DIR}/deploy/models/demo/model.safetensors
        ${PROJECT_SOURCE_DIR}/deploy/models/demo/MODEL_CARD.md
  DESTINATION share/steadystate/models/demo
  COMPONENT package)
install(
  FILES ${PROJECT_SOURCE_DIR}/deploy/CHANGELOG.md
  DESTINATION share/doc/steadystate
  COMPONENT package)
install(
  FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION share/doc/steadystate
  RENAME copyright
  COMPONENT package)
install(
  FILES ${PROJECT_SOURCE_DIR}/proto/inference/NOTICE
  DESTINATION share/doc/steadystate
  COMPONENT package)

# All documents, each where it is in the sources, so that links lead on. Of the
# component `documentation`, as manual pages are.
file(
  GLOB_RECURSE documents
  RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/client/*.md
  ${PROJECT_SOURCE_DIR}/deploy/*.md
  ${PROJECT_SOURCE_DIR}/kernels/*.md
  ${PROJECT_SOURCE_DIR}/proto/*.md
  ${PROJECT_SOURCE_DIR}/server/*.md
  ${PROJECT_SOURCE_DIR}/tests/*.md)
foreach(document README.md LICENSE ${documents})
  get_filename_component(folder ${document} DIRECTORY)
  install(
    FILES ${PROJECT_SOURCE_DIR}/${document}
    DESTINATION share/doc/steadystate/${folder}
    COMPONENT documentation)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME steadystate)
set(CPACK_PACKAGE_VENDOR Steadystate)
set(CPACK_PACKAGE_CONTACT "Steadystate <steadystate@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime package documentation)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The module beside the program is no library of the package.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${package_files}/conffiles)
include(CPack)
