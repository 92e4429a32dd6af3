# Finds NCCL's host API (nccl.h and the library), which needs no CUDA compiler.
#
#   NCCL_FOUND, NCCL_VERSION, target NCCL::NCCL
#
# Looks under NCCL_ROOT or NCCL_HOME (CMake variables or in the environment), in the CUDA toolkit and in the
# system. Also takes libnccl.so.2, because the wheels of nvidia-nccl-cu* bring no libnccl.so.
set(_nccl_hints ${NCCL_HOME} $ENV{NCCL_HOME} ${CUDAToolkit_ROOT} $ENV{CUDA_HOME})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_nccl_hints} PATHS /usr/local/cuda PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${_nccl_hints} PATHS /usr/local/cuda
             PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

unset(NCCL_VERSION)
if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  foreach(_nccl_part MAJOR MINOR PATCH)
    if("${_nccl_lines}" MATCHES "NCCL_${_nccl_part} +([0-9]+)")
      list(APPEND NCCL_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN NCCL_VERSION "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)

if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES
    IMPORTED_LOCATION ${NCCL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
