# What is installed, and where: the rules of `cmake --install`, of the Debian package and of the wheel.
#
#   component program   bin/shardlab, share/shardlab/{configs,torch_worker}, share/doc/shardlab, manual pages, and what
#                       shells read to complete command lines
#   component wheel     the same program, its data and its pages in a wheel's own folders, and the Python package. These rules
#                       exist only when scikit-build-core configures, which says where those folders are
#
# The program finds its data from where it stands (runner/config/configs.h), so that a prefix can be moved.
include(GNUInstallDirs)

set(_data ${CMAKE_INSTALL_DATADIR}/shardlab)
set(_docs ${CMAKE_INSTALL_DOCDIR})
install(TARGETS shardlab RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${_data} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/torch_worker DESTINATION ${_data} COMPONENT program
  PATTERN __pycache__ EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${_docs} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${_docs} COMPONENT program)

include(install_pages)
install_pages(program ${CMAKE_INSTALL_DATADIR})

# The licences of the libraries whose code is in the program, and which ask for their notice to go where the code goes.
# Boost's licence does not ask it of binaries.
set(_notices "")
foreach(_package IN ITEMS libcli11-dev nlohmann-json3-dev libeigen3-dev libjs-chart.js pybind11-dev)
  if(EXISTS /usr/share/doc/${_package}/copyright)
    list(APPEND _notices ${_package})
  endif()
endforeach()
foreach(_package IN LISTS _notices)
  if(NOT _package STREQUAL "pybind11-dev")  # the Python module's alone
    install(FILES /usr/share/doc/${_package}/copyright DESTINATION ${_docs}/licenses RENAME ${_package}.txt
      COMPONENT program)
  endif()
endforeach()

if(SKBUILD)
  install(TARGETS shardlab RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT wheel)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${SKBUILD_DATA_DIR}/share/shardlab COMPONENT wheel)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/torch_worker DESTINATION ${SKBUILD_DATA_DIR}/share/shardlab
    COMPONENT wheel PATTERN __pycache__ EXCLUDE)
  install_pages(wheel ${SKBUILD_DATA_DIR}/share)
  foreach(_package IN LISTS _notices)
    install(FILES /usr/share/doc/${_package}/copyright DESTINATION ${SKBUILD_METADATA_DIR}/licenses
      RENAME ${_package}.txt COMPONENT wheel)
  endforeach()
endif()

# --- The Debian package: cpack --config BUILD/CPackConfig.cmake -G DEB ------------------------------------
set(CPACK_PACKAGE_NAME shardlab)
set(CPACK_PACKAGE_CONTACT "The shardlab maintainers <maintainers@shardlab.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "prices, plans and simulates PyTorch DTensor programs on virtual GPU clusters")
set(CPACK_PACKAGE_DESCRIPTION
"shardlab shows which sharding decisions a change to DTensor's cost model flips, and what the flips cost in time. It
makes the decisions of PyTorch 2.13, 2.14 and 2.15 on virtual meshes of any size, finds the best layouts of whole
programs, fits its prices to logs of nccl-tests, and predicts training steps. It needs neither PyTorch nor a GPU.")
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)  # shardlab_VERSION_amd64.deb
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # asks dpkg-shlibdeps what the binary needs
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3")  # for stacks of a live PyTorch
include(CPack)
