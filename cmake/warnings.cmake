# shardlab_add_warnings(<interface target>): adds the warnings that every file of this project is compiled with.
function(shardlab_add_warnings target)
  target_compile_options(${target} INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wundef
    -Wnon-virtual-dtor)
  if(SHARDLAB_WERROR)
    target_compile_options(${target} INTERFACE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms on `"text" + std::string`, which -fPIC and precompiled headers bring out:
    # https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651 and 105329
    target_compile_options(${target} INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
    if(SHARDLAB_SANITIZE)
      # The instrumentation hides initialisations from this warning: "-fsanitize=... may result in false positives", GCC manual.
      target_compile_options(${target} INTERFACE -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()
