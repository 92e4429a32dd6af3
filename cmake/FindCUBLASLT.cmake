# Finds cuBLASLt (cublasLt.h and the library).
#
#   CUBLASLT_FOUND, target CUBLASLT::CUBLASLT
#
# Looks under CUBLASLT_ROOT (a CMake variable or in the environment), in the CUDA toolkit and in the system.
# Also takes libcublasLt.so.13 and .12, because the wheels of nvidia-cublas bring no libcublasLt.so.
set(_cublaslt_hints ${CUDAToolkit_ROOT} $ENV{CUDA_HOME})
find_path(CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${_cublaslt_hints} PATHS /usr/local/cuda PATH_SUFFIXES include)
find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 HINTS ${_cublaslt_hints}
             PATHS /usr/local/cuda PATH_SUFFIXES lib lib64)
mark_as_advanced(CUBLASLT_INCLUDE_DIR CUBLASLT_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUBLASLT REQUIRED_VARS CUBLASLT_LIBRARY CUBLASLT_INCLUDE_DIR)

if(CUBLASLT_FOUND AND NOT TARGET CUBLASLT::CUBLASLT)
  add_library(CUBLASLT::CUBLASLT UNKNOWN IMPORTED)
  set_target_properties(CUBLASLT::CUBLASLT PROPERTIES
    IMPORTED_LOCATION ${CUBLASLT_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CUBLASLT_INCLUDE_DIR})
endif()
