// The shipped schema of records is the one that follows from their structs. UPDATE_GOLDEN=1
// rewrites the file; read the difference.
#include "reports/records/record_schema.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace shardlab::reports {
namespace record_schema_test {

TEST(RecordSchema, TheShippedFileFollowsFromTheStructs) {
  const std::string path = std::string(SHARDLAB_SOURCE_DIR) + "/configs/schema/record.schema.json";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << record_schema_text();
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path;
  std::ostringstream shipped;
  shipped << file.rdbuf();
  EXPECT_EQ(record_schema_text(), shipped.str()) << "UPDATE_GOLDEN=1 rewrites " << path;
}

}  // namespace record_schema_test
}  // namespace shardlab::reports
