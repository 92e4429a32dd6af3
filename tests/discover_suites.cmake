# Lists the suites of a GoogleTest program when CTest starts, and makes each suite one test.
#
# CTest includes this file through <name>_suites.cmake, which sets `name` (the program), `program` (its
# path), `label`, and `slowdown`, by which time limits are multiplied. One process runs a whole suite: a
# process for each of some thousand test cases would spend more time on starting than on testing. A suite
# whose name contains Slow or Gpu gets that label in place of its program's. A suite in which every test
# case was skipped is shown as skipped.
if(NOT EXISTS "${program}")
  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
  return()
endif()
execute_process(COMMAND "${program}" --gtest_list_tests
                OUTPUT_VARIABLE listed RESULT_VARIABLE failed ERROR_VARIABLE message TIMEOUT 120)
if(failed)
  message(FATAL_ERROR "${program} --gtest_list_tests ended with ${failed}: ${message}")
endif()
# A line that begins without a blank names a suite and ends with a dot; a comment may follow that.
string(REGEX MATCHALL "\n[^ \n#]+\\.[ ]*(#[^\n]*)?" suites "\n${listed}")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n([^ #]+)\\..*$" "\\1" suite "${suite}")
  set(labels ${label})
  set(timeout 900)
  if(suite MATCHES "Slow")
    set(labels slow)
    set(timeout 3600)
  elseif(suite MATCHES "Gpu")
    set(labels gpu)
  endif()
  math(EXPR timeout "${timeout} * ${slowdown}")
  # Long suites begin first, so that no processor waits for them at the end; later runs know by themselves.
  set(cost 0)
  if(suite MATCHES "^(PyTorch/DTensorLive|LiveComparison|RulesCommand|Ops/ProvedOp|Scoreboard|Sweeps|LiveTorch)$")
    set(cost 100)
  endif()
  add_test(${name}.${suite} "${program}" "--gtest_filter=${suite}.*")
  set_tests_properties(${name}.${suite} PROPERTIES
    LABELS ${labels} TIMEOUT ${timeout} COST ${cost}
    SKIP_REGULAR_EXPRESSION
      "\\[  PASSED  \\] 0 tests\\.\n\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\][^\n]*\n?)*$")
endforeach()
