#include "reports/records/ties_record.h"

#include "reports/records/result_reader.h"

namespace shardlab::reports {

TiesRecord read_ties_record(ResultRecord record, std::string_view file) {
  return read_result<TiesRecord>(std::move(record), file);
}

}  // namespace shardlab::reports
