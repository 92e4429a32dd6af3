// The JSON schema of records, from the lists of fields of their structs. What is shipped as
// configs/schema/record.schema.json is this text: tests/unit/reports/records/record_schema_test.cpp
// compares them, and rewrites the file where UPDATE_GOLDEN is set.
#pragma once

#include <string>

namespace shardlab::reports {

[[nodiscard]] std::string record_schema_text();

}  // namespace shardlab::reports
