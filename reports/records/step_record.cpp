#include "reports/records/step_record.h"

#include "reports/records/result_reader.h"

namespace shardlab::reports {

StepRecord read_step_record(ResultRecord record, std::string_view file) {
  return read_result<StepRecord>(std::move(record), file);
}

}  // namespace shardlab::reports
