// Reads the JSON that a command printed, which its record keeps under "result". Include this header
// in source files only.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "costmodel/base/fields_json.h"
#include "reports/records/run_header.h"

namespace shardlab::reports {

template <class Record>
[[nodiscard]] Record read_result(ResultRecord record, std::string_view file) {
  Record read = read_as<Record>(record.result, {std::string(file), "/result"});
  static_cast<ResultRecord&>(read) = std::move(record);
  return read;
}

}  // namespace shardlab::reports
