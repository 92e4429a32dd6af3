# shardlab_add_sanitizers(<interface target>): adds the flags that SHARDLAB_SANITIZE and SHARDLAB_FUZZ ask for. Any
# finding ends the process.
function(shardlab_add_sanitizers target)
  set(kinds ${SHARDLAB_SANITIZE})
  if(SHARDLAB_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      message(FATAL_ERROR "SHARDLAB_FUZZ needs Clang (libFuzzer); the compiler is ${CMAKE_CXX_COMPILER_ID}. "
                          "Try: cmake --preset fuzz")
    endif()
    if(NOT kinds)
      set(kinds address,undefined)
    endif()
    string(APPEND kinds ",fuzzer-no-link")
  endif()
  if(NOT kinds)
    return()
  endif()
  if(kinds MATCHES "undefined")
    string(APPEND kinds ",float-cast-overflow")  # not part of "undefined"; bytes are doubles here
  endif()
  set(flags -fsanitize=${kinds} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(kinds MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With these checks GCC treats no comparison of a function pointer as a constant, so the tables of rules
    # would not compile. Following a null pointer ends the process anyway.
    list(APPEND flags -fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute)
  endif()
  target_compile_options(${target} INTERFACE ${flags})
  target_link_options(${target} INTERFACE ${flags})
endfunction()
