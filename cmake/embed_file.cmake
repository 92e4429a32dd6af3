# embed_file(<target> <function> <file> <header> <namespace>): adds a generated source to <target> that defines
#   <namespace>::EmbeddedFile <function>();      (declared in <header>, as in reports/writers/assets.h)
# with the bytes of <file>. Bytes are written as escapes, in pieces below the length every compiler accepts; configuring
# happens again when the file changes.
function(embed_file target function file header namespace)
  file(SIZE "${file}" size)
  set(piece 8000)
  set(at 0)
  set(pieces "")
  while(at LESS size)
    file(READ "${file}" hex OFFSET ${at} LIMIT ${piece} HEX)
    string(REGEX REPLACE "(..)" "\\\\x\\1" escaped "${hex}")
    # An embedded NUL would end a string_view made from a literal; text has none.
    string(APPEND pieces "    \"${escaped}\",\n")
    math(EXPR at "${at} + ${piece}")
  endwhile()
  get_filename_component(name "${file}" NAME)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
  file(CONFIGURE OUTPUT "${out}" @ONLY CONTENT [=[
// Generated from @name@; do not edit.
#include "@header@"
namespace @namespace@ {
namespace {
constexpr std::string_view kPieces[] = {
@pieces@};
}  // namespace
EmbeddedFile @function@() { return kPieces; }
}  // namespace @namespace@
]=])
  target_sources(${target} PRIVATE "${out}")
  set_source_files_properties("${out}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # each has its kPieces
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endfunction()
