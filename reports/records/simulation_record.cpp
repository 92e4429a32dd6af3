#include "reports/records/simulation_record.h"

#include "reports/records/result_reader.h"

namespace shardlab::reports {

SimulationRecord read_simulation_record(ResultRecord record, std::string_view file) {
  return read_result<SimulationRecord>(std::move(record), file);
}

}  // namespace shardlab::reports
