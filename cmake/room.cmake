# shardlab_room(<target> SOURCES <file>... [PUBLIC <target>...] [PRIVATE <target>...] [COLD])
#
# A room is one folder and one static library. PUBLIC names the rooms and packages that its headers include,
# and PRIVATE those that only its sources include; scripts/check_layers.py checks every include against a table
# of the same content. COLD says that nothing in the room is called millions of times. A release then compiles it
# with -O1, which takes GCC 30 % less time than -O3. Floating point results do not depend on that choice.
# Example: shardlab_room(shardlab_cases SOURCES case.cpp PUBLIC shardlab_programs COLD)
function(shardlab_room target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "COLD" "" "SOURCES;PUBLIC;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardlab_room(${target} ... ${arg_UNPARSED_ARGUMENTS}); "
                        "valid: SOURCES, PUBLIC, PRIVATE, COLD")
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} shardlab_options)
  if(arg_COLD)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  shardlab_precompile(${target})
  # The files of a room include the same headers, and a compiler spends most of its time on those: four
  # files together take little longer than one. Names in anonymous namespaces are therefore used once in
  # a room.
  if(SHARDLAB_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  endif()
endfunction()

# shardlab_precompile(<target>)
#
# Compiles the target with precompiled headers: those that nearly every file includes are parsed once for all
# targets. With SHARDLAB_PRECOMPILE=OFF they are not. The preset clang sets that, so that no file comes to rely on
# a header that it does not include.
function(shardlab_precompile target)
  if(NOT SHARDLAB_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET shardlab_precompiled)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp CONTENT "")
    add_library(shardlab_precompiled OBJECT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp)
    target_link_libraries(shardlab_precompiled PRIVATE nlohmann_json::nlohmann_json shardlab_options)
    target_precompile_headers(shardlab_precompiled PRIVATE
      <algorithm> <array> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional>
      <set> <span> <sstream> <stdexcept> <string> <string_view> <tuple> <unordered_map> <utility>
      <variant> <vector> <nlohmann/json.hpp>)
  endif()
  target_precompile_headers(${target} REUSE_FROM shardlab_precompiled)
endfunction()
