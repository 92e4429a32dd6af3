#include "costmodel/measurements/measurement_set.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace measurement_set_test {

using nlohmann::json;

json good() {
  return {{"schema", "shardlab/measurements/1"},
          {"source", "https://example.org/log"},
          {"date", "2026-01-02"},
          {"gpu", "H100"},
          {"gpus_per_host", 8},
          {"hosts", 2},
          {"ranks", 16},
          {"gpus_per_process", 8},
          {"intra", "NVLink4"},
          {"inter", "InfiniBand"},
          {"nccl_version", "2.29.3"},
          {"health", "healthy"},
          {"rows",
           {{{"collective", "all_reduce"},
             {"dtype", "f32"},
             {"bytes", 1048576},
             {"time_us", 40.5},
             {"in_place_time_us", 41.0},
             {"iterations", 20},
             {"p50_us", 40.0},
             {"p95_us", 44.0}},
            {{"collective", "all_gather"}, {"dtype", "bf16"}, {"bytes", 96}, {"time_us", 12.0}}}}};
}

MeasurementSet read(const json& value) {
  return MeasurementSet::from_json(value, {"folder/run.json", ""});
}

std::string message_of(const char* patch) {
  json value = good();
  value.merge_patch(json::parse(patch));
  try {
    static_cast<void>(read(value));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MeasurementSet, ReadsEveryKey) {
  const MeasurementSet set = read(good());
  EXPECT_EQ(set.name, "run");
  EXPECT_EQ(set.source, "https://example.org/log");
  EXPECT_EQ(set.ranks, 16);
  EXPECT_EQ(set.hosts, 2);
  EXPECT_EQ(set.gpus_per_host, 8);
  EXPECT_EQ(set.gpus_per_process, 8);
  EXPECT_EQ(set.inter, "InfiniBand");
  EXPECT_EQ(set.health, Health::kHealthy);
  ASSERT_EQ(set.rows.size(), 2U);
  EXPECT_EQ(set.rows[0].collective, Collective::kAllReduce);
  EXPECT_EQ(set.rows[0].bytes, 1048576.0);
  EXPECT_EQ(set.rows[0].in_place_time_us, 41.0);
  EXPECT_EQ(set.rows[0].iterations, 20);
  EXPECT_EQ(set.rows[0].p50_us, 40.0);
  EXPECT_EQ(set.rows[0].p95_us, 44.0);
  EXPECT_EQ(set.rows[1].dtype, "bf16");
  EXPECT_FALSE(set.rows[1].in_place_time_us.has_value());
}

TEST(MeasurementSet, TheGpusOfAProcessMayBeUnknown) {
  json value = good();
  value.erase("gpus_per_process");
  const MeasurementSet set = read(value);
  EXPECT_EQ(set.gpus_per_process, 0);
  EXPECT_FALSE(set.to_json().contains("gpus_per_process"));
  EXPECT_NE(message_of(R"({"gpus_per_process": 17})").find("/gpus_per_process"), std::string::npos);
}

TEST(MeasurementSet, ToJsonReadsBackToTheSame) {
  const MeasurementSet set = read(good());
  const nlohmann::ordered_json written = set.to_json();
  const MeasurementSet again = read(json(written));
  EXPECT_EQ(again.gpus_per_process, set.gpus_per_process);
  EXPECT_EQ(again.rows, set.rows);
  EXPECT_EQ(again.to_json(), written);
  EXPECT_EQ(written.begin().key(), "schema");
}

TEST(MeasurementSet, NullsAndAbsentKeysAreTheSame) {
  json value = good();
  for (const char* key : {"date", "intra", "inter", "nccl_version", "health"}) value[key] = nullptr;
  value["rows"][0]["p50_us"] = nullptr;
  const MeasurementSet set = read(value);
  EXPECT_EQ(set.inter, "");
  EXPECT_EQ(set.health, Health::kUnknown);
  EXPECT_FALSE(set.rows[0].p50_us.has_value());
}

TEST(MeasurementSet, TheWordsOfLogCollectionsAreHealthToo) {
  EXPECT_EQ(health_from_name("normal"), Health::kHealthy);
  EXPECT_EQ(health_from_name("suspect"), Health::kUnhealthy);
  EXPECT_EQ(health_from_name("fine"), std::nullopt);
  for (const Health health : {Health::kHealthy, Health::kUnhealthy, Health::kUnknown}) {
    EXPECT_EQ(health_from_name(to_string(health)), health);
  }
}

TEST(MeasurementSet, SpansAllRanksOnItsHosts) {
  MeasurementSet set = read(good());
  EXPECT_EQ(
      set.span(),
      (GroupSpan{
          .ranks = 16, .hosts = 2, .domains = 2, .ranks_per_host = 8, .extent = 16, .walk = 16}));
  set.hosts = 16;
  EXPECT_EQ(set.span().ranks_per_host, 1);
}

TEST(MeasurementSet, ItsNameIsTheFiles) {
  EXPECT_EQ(set_name_of("a/b/run-1.json"), "run-1");
  EXPECT_EQ(set_name_of("run.2.txt"), "run.2");
  EXPECT_EQ(set_name_of(".hidden"), ".hidden");
  EXPECT_EQ(set_name_of("b/run.0.et"), "run.0");
  EXPECT_EQ(set_name_of("b/run.0.et.json"), "run.0");
  EXPECT_EQ(set_name_of("b/rank0.pt.trace.json.gz"), "rank0.pt.trace");
}

TEST(MeasurementSet, ErrorsNameThePlaceAndWhatIsValid) {
  EXPECT_EQ(message_of(R"({"schema": "shardlab/stack/1"})"),
            "folder/run.json:/schema: found \"shardlab/stack/1\"; valid: "
            "\"shardlab/measurements/1\"");
  EXPECT_EQ(message_of(R"({"ranks": 0})"),
            "folder/run.json:/ranks: found 0; valid: an integer from 1 to 1099511627776");
  EXPECT_EQ(
      message_of(R"({"hosts": 17})"),
      "folder/run.json:/hosts: found 17 hosts for 16 ranks; valid: at most one host per rank");
  EXPECT_EQ(message_of(R"({"hosts": 1, "ranks": 9})"),
            "folder/run.json:/ranks: found 9 ranks for gpus_per_host 8 and hosts 1; valid: at most "
            "8, gpus_per_host times hosts");
  EXPECT_EQ(message_of(R"({"ranks": 9})"), "no error");
  EXPECT_EQ(message_of(R"({"health": "fine"})"),
            "folder/run.json:/health: found \"fine\"; valid: healthy, unhealthy, unknown");
  EXPECT_EQ(message_of(R"({"rows": []})"),
            "folder/run.json:/rows: found no rows; valid: at least one row, or kernels");
  EXPECT_EQ(message_of(R"({"rows": [{"collective": "local"}]})"),
            "folder/run.json:/rows/0/collective: found \"local\"; valid: all_gather all_reduce "
            "reduce_scatter all_to_all broadcast scatter send_recv");
  EXPECT_EQ(message_of(R"({"rows": [{"collective": "all_gather", "dtype": "float"}]})"),
            "folder/run.json:/rows/0/dtype: found \"float\"; valid: f64 f32 f16 bf16 f8e4m3 f8e5m2 "
            "i64 i32 i16 i8 u8 b8 u64 c64 u32");
  EXPECT_EQ(message_of(R"({"rows": [{"collective": "all_gather", "dtype": "f32", "bytes": 8,
                                     "time_us": 0}]})"),
            "folder/run.json:/rows/0/time_us: found 0; valid: a number from 1e-06 to 1e+15");
  EXPECT_NE(message_of(R"({"rankz": 1})").find("/rankz: unknown key (did you mean \"ranks\"?)"),
            std::string::npos);
}

TEST(MeasurementSet, DigestsTellTimesApart) {
  MeasurementSet set;
  set.rows.push_back(
      {.collective = Collective::kAllReduce, .dtype = "f32", .bytes = 1024.0, .time_us = 20.0});
  set.rows.push_back(
      {.collective = Collective::kAllReduce, .dtype = "f32", .bytes = 2048.0, .time_us = 21.0});
  const std::string digest = set.digest();
  EXPECT_EQ(digest.size(), 16U);
  EXPECT_EQ(MeasurementSet().digest(), "cbf29ce484222325");  // FNV-1a of nothing
  MeasurementSet other = set;
  other.name = "other";
  other.hosts = 2;
  std::swap(other.rows[0], other.rows[1]);
  EXPECT_EQ(other.digest(), digest);
  other.rows[0].time_us = 21.01;
  EXPECT_NE(other.digest(), digest);
}

}  // namespace measurement_set_test
}  // namespace shardlab
