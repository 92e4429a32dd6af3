#include "runner/simulate/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardlab {
namespace device_memory_test {

using testing::HasSubstr;

TEST(DeviceMemory, ASmallPeakIsNotPrintedAsZeroGigabytes) {
  DeviceMemory memory;
  memory.device_bytes = 80e9;
  memory.peak_bytes = 1.47e6;
  EXPECT_THAT(memory.text(TextStyle()),
              HasSubstr("memory 1.47 MB at the peak, which fits into 80.00 GB"));
  memory.peak_bytes = 512.0;
  EXPECT_THAT(memory.text(TextStyle()), HasSubstr("memory 0.51 kB at the peak"));
  memory.peak_bytes = 90e9;
  EXPECT_THAT(memory.text(TextStyle()),
              HasSubstr("memory 90.00 GB at the peak, MORE THAN THE 80.00 GB"));
}

}  // namespace device_memory_test
}  // namespace shardlab
