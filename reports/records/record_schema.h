// The JSON schema of records, made from the lists of fields of their structs. The shipped file
// configs/schema/record.schema.json is this text: tests/unit/reports/records/record_schema_test.cpp
// compares the two, and rewrites the file if UPDATE_GOLDEN is set.
#pragma once

#include <string>

namespace shardlab::reports {

[[nodiscard]] std::string record_schema_text();

}  // namespace shardlab::reports
