// shardlab step, validate --steps and calibrate --steps as a user runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "runner/base/text_style.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace step_test {

using nlohmann::json;
using Words = std::vector<std::string>;

const Words kSmall = {"step",     "llama3-8b", "--topology", "h100", "--mesh",   "fsdp=8",
                      "--layers", "4",         "--seq",      "8192", "--compile"};

json json_of(Words words, const std::filesystem::path& folder = {}) {
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = run_shardlab(words, folder);
  EXPECT_EQ(result.exit_code, 0) << join(words, " ") << "\n" << result.err;
  return json::parse(result.out, nullptr, false);
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_error(const Words& words, int exit_code, const std::string& message,
                  const std::filesystem::path& folder = {}) {
  const ProcessResult result = run_shardlab(words, folder);
  EXPECT_EQ(result.exit_code, exit_code) << join(words, " ");
  EXPECT_EQ(result.out, "") << join(words, " ");
  EXPECT_EQ(result.err, "shardlab: " + message + "\n") << join(words, " ");
}

double sum_of(const json& numbers) {
  double sum = 0.0;
  for (const json& each : numbers) sum += each.is_object() ? sum_of(each) : each.get<double>();
  return sum;
}

TEST(StepCommand, PrintsTheStepItsMemoryAndWhereTheTimeGoes) {
  const json out = json_of(kSmall);
  EXPECT_EQ(out["model"], "llama3-8b");
  EXPECT_EQ(out["mesh"], "fsdp=8");
  EXPECT_EQ(out["ranks"], 8);
  EXPECT_EQ(out["recompute"], "none");
  const double step_ms = out["step_ms"].get<double>();
  EXPECT_NEAR(out["tokens_per_s_per_gpu"].get<double>(), 8192.0 / (step_ms * 1e-3), 1e-6);
  EXPECT_EQ(out["tokens_per_step"], 8.0 * 8192.0);
  EXPECT_GT(out["mfu_percent"].get<double>(), 10.0);
  EXPECT_LT(out["mfu_percent"].get<double>(), 90.0);
  for (const char* part : {"gemm", "attention", "other", "exposed", "bubble", "host"}) {
    EXPECT_TRUE(out["breakdown_ms"].contains(part)) << part;
  }
  EXPECT_NEAR(sum_of(out["breakdown_ms"]) / step_ms, 1.0, 1e-6);
  const json& memory = out["memory"];
  EXPECT_NEAR(sum_of(memory["parts"]) / memory["peak_bytes"].get<double>(), 1.0, 1e-9);
  EXPECT_EQ(memory["fits"], true);
}

TEST(StepCommand, SaysTheSameInWords) {
  const json out = json_of(kSmall);
  const ProcessResult text = run_shardlab(kSmall);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.find("llama3-8b on 8 ranks of h100 (fsdp=8): "), 0U) << text.out;
  for (const char* part :
       {"tokens per second per GPU", "where the time goes", "GEMMs", "attention", "other kernels",
        "pipeline bubble", "with recomputation none", "activations"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  }
  EXPECT_NE(text.out.find(" " + TextStyle().figure(out["step_ms"].get<double>()) + " ms"),
            std::string::npos);
}

// A topology of one's own takes the terms of its GPU, if it says which GPU it has.
TEST(StepCommand, ATopologyOfOnesOwnNamesItsGpu) {
  const json shipped = json_of(kSmall);
  const Words renamed = with(kSmall, {"--set", "name=mine"});
  const json out = json_of(renamed);
  EXPECT_NE(out["step_ms"], shipped["step_ms"]);
  const ProcessResult text = run_shardlab(renamed);
  EXPECT_NE(
      text.out.find("  note: steps has no terms fitted to the GPU mine and takes those of all "
                    "GPUs; if it is one of a100, a100-40, "),
      std::string::npos)
      << text.out;
  const Words named = with(renamed, {"--set", "device.gpu=h100"});
  EXPECT_EQ(json_of(named)["step_ms"], shipped["step_ms"]);
  EXPECT_EQ(run_shardlab(named).out.find("note:"), std::string::npos);
  EXPECT_EQ(run_shardlab(kSmall).out.find("note:"), std::string::npos);
}

TEST(StepCommand, AStackWithoutTermsOfStepsSaysSo) {
  const std::string note = "calibrated-h100 has no terms fitted to training steps";
  Words words = kSmall;
  EXPECT_EQ(run_shardlab(words).out.find("has no terms"), std::string::npos);
  words.insert(words.end(), {"--stack", "calibrated-h100"});
  EXPECT_NE(run_shardlab(words).out.find(note), std::string::npos);
}

TEST(StepCommand, OptionsChangeWhatTheySay) {
  const auto step_ms = [](const Words& more) {
    return json_of(with(kSmall, more))["step_ms"].get<double>();
  };
  const double compiled = step_ms({});
  EXPECT_GT(step_ms({"--recompute", "full"}), compiled);
  EXPECT_GT(step_ms({"--micro-batch", "2"}), 1.5 * compiled);
  EXPECT_GT(step_ms({"--grad-accum", "2"}), 1.5 * compiled);
  EXPECT_LT(step_ms({"--precision", "fp8-tensorwise"}), compiled);
  EXPECT_LT(step_ms({"--attention", "cudnn"}), compiled);
  EXPECT_LT(step_ms({"--vocabulary", "1000"}), compiled);
  EXPECT_EQ(json_of(with(kSmall, {"--recompute", "auto"}))["recompute"], "none");
}

// Without the change there is no step, so that it is not asked whether it changes one.
TEST(StepCommand, MayNeedAChangeOfTheTopology) {
  const ProcessResult done = run_shardlab({"step", "llama3-8b", "--mesh", "fsdp=8", "--precision",
                                           "mxfp8", "--set", "device.peak_tflops.f4e2m1=4000"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out.find("changes nothing"), std::string::npos) << done.out;
}

// Heads of some models do not make up the width: 64 heads of 128 for a width of 5,120.
TEST(StepCommand, ASizeThatTheModelHasChangesNothing) {
  const Words qwen = {"step", "qwen3-32b", "--mesh", "fsdp=8", "--layers", "2", "--seq", "2048"};
  const json own = json_of(qwen);
  EXPECT_EQ(json_of(with(qwen, {"--heads", "64", "--width", "5120"})), own);
  EXPECT_EQ(json_of(with(qwen, {"--head-dim", "128"})), own);
  EXPECT_NE(json_of(with(qwen, {"--head-dim", "80"}))["step_ms"], own["step_ms"]);
  EXPECT_EQ(run_shardlab(with(qwen, {"--heads", "32"})).out.find("note:"), std::string::npos);
  const Words derived = with(kSmall, {"--heads", "64"});
  EXPECT_NE(run_shardlab(derived).out.find("  note: a head is 64 wide, the width of 4096 over 64 "
                                           "heads; --head-dim says otherwise\n"),
            std::string::npos);
  const Words said = with(derived, {"--head-dim", "64"});
  EXPECT_EQ(json_of(said), json_of(derived));
  EXPECT_EQ(run_shardlab(said).out.find("note:"), std::string::npos);
}

TEST(StepCommand, ChangesOfTheTopologyThatChangeNothingAreNoted) {
  const auto note = [](const std::string& change) {
    return "  note: --set " + change +
           " changes nothing of this step: its ranks do not use it, or the models of the stack "
           "steps do not read it\n";
  };
  const Words words = with(
      kSmall, {"--set", "device.launch_us=1000000", "--set", "device.memory_gib=40", "--set",
               "links.nvlink.bandwidth_gb_per_s=200", "--set", "links.network.latency_us=1000000"});
  const std::string out = run_shardlab(words).out;
  EXPECT_NE(out.find(note("device.launch_us=1000000")), std::string::npos) << out;
  EXPECT_NE(out.find(note("links.network.latency_us=1000000")), std::string::npos) << out;
  EXPECT_EQ(out.find(note("device.memory_gib=40")), std::string::npos);
  EXPECT_EQ(out.find(note("links.nvlink.bandwidth_gb_per_s=200")), std::string::npos);
  EXPECT_EQ(json_of(words)["unread_changes"],
            json({"device.launch_us=1000000", "links.network.latency_us=1000000"}));
  EXPECT_FALSE(json_of(kSmall).contains("unread_changes"));
}

TEST(StepCommand, AStragglerDelaysEachCollective) {
  const Words percent =
      with(kSmall, {"--set", R"(stack.straggler={"name":"percent","percent":100})"});
  const Words fixed = with(kSmall, {"--set", R"(stack.straggler={"name":"fixed","fixed_us":500})"});
  const double plain = json_of(kSmall)["step_ms"].get<double>();
  EXPECT_GT(json_of(percent)["step_ms"].get<double>(), plain);
  // Each block's weights are gathered twice and its gradients are reduced once, but gathers run
  // beside kernels.
  EXPECT_GT(json_of(fixed)["step_ms"].get<double>(), plain + 0.5);
  EXPECT_EQ(run_shardlab(percent).out.find("note:"), std::string::npos);
  const auto tokens = [](const Words& more) {
    const json out = json_of(with({"validate", "--steps", "published"}, more));
    return out["predictions"][0]["tokens_per_s_per_gpu"].get<double>();
  };
  EXPECT_LT(tokens({"--set", R"(stack.straggler={"name":"percent","percent":100})"}), tokens({}));
}

TEST(StepCommand, ChangesOfTheStackThatChangeNothingAreNoted) {
  const auto note = [](const std::string& change) {
    return "  note: --set stack." + change +
           " changes nothing of this step: nothing that the step consists of reads it, or it is "
           "what the stack says already\n";
  };
  const std::string out =
      run_shardlab(with(kSmall, {"--set", "stack.transition_us=50", "--set", "stack.planner=greedy",
                                 "--set", "stack.collective_model.params.ring_simple_base_us=90"}))
          .out;
  EXPECT_NE(out.find(note("transition_us=50")), std::string::npos) << out;
  EXPECT_NE(out.find(note("planner=greedy")), std::string::npos) << out;
  EXPECT_EQ(out.find("ring_simple_base_us"), std::string::npos) << out;
}

TEST(StepCommand, ShardingOverReplicasAloneIsNoted) {
  const Words words = {"step", "llama3-8b", "--layers", "2", "--mesh", "dp=8"};
  const std::string note =
      "  note: kept-weights shards nothing here, since the ranks of dp are replicas; fsdp=8 in "
      "place of dp=8 shards over them\n";
  EXPECT_NE(run_shardlab(with(words, {"--sharding", "kept-weights"})).out.find(note),
            std::string::npos);
  EXPECT_EQ(run_shardlab(words).out.find("shards nothing"), std::string::npos);
}

TEST(StepCommand, APicturedPipelineSaysItsStage) {
  const TemporaryFolder folder;
  const Words words = {"step", "llama3-8b", "--layers", "4",       "--mesh",
                       "pp=2", "--out",     "report",   "--trace", "t.json"};
  ASSERT_EQ(run_shardlab(words, folder.path()).exit_code, 0);
  EXPECT_NE(read_text(folder.path() / "report/report.md")
                .find("Both passes of a micro-batch through the first stage of the pipeline take "),
            std::string::npos);
  EXPECT_NE(read_text(folder.path() / "t.json").find("one micro-batch of one rank of the first "),
            std::string::npos);
}

TEST(StepCommand, GraphsSpareTheHostsLaunches) {
  // Many small kernels, whose launches take longer than they do.
  const Words words = {"step",      "qwen3-30b-a3b", "--mesh", "fsdp=16,ep=8",
                       "--library", "--seq",         "1024"};
  const double eager = json_of(words)["step_ms"].get<double>();
  EXPECT_LT(json_of(with(words, {"--cuda-graphs"}))["step_ms"].get<double>(), 0.95 * eager);
}

TEST(StepCommand, GradientsMayBeReducedOnceAStep) {
  const Words words = with(kSmall, {"--grad-accum", "4"});
  const auto gradients = [](const Words& run) {
    return json_of(run)["memory"]["parts"]["gradients"].get<double>();
  };
  EXPECT_DOUBLE_EQ(gradients(with(words, {"--no-sync"})), 8.0 * gradients(words));
  const Words llama = {"step", "llama3-8b", "--no-sync", "--mesh"};
  expect_error(with(llama, {"dp=8", "--grad-accum", "4"}), 2,
               "--no-sync: found --sharding optimizer, which reduces gradients once a step in any "
               "case; valid: full or kept-weights");
  expect_error(with(llama, {"fsdp=8,pp=2", "--grad-accum", "4"}), 2,
               "--no-sync: found a mesh with a pipeline, which reduces gradients once a step in "
               "any case; valid: with pp=1");
  expect_error(with(llama, {"fsdp=8"}), 2,
               "--no-sync: found a step of one micro-batch, which reduces gradients once a step in "
               "any case; valid: with --grad-accum above 1");
}

// The copies into the buffer that is reduced write half as much, and ranks that keep whole
// gradients keep half as much.
TEST(StepCommand, GradientsMayBeReducedInBf16) {
  const Words words = with(kSmall, {"--reduce-dtype"});
  EXPECT_EQ(json_of(with(words, {"f32"})), json_of(kSmall));
  const auto of = [](const Words& run, const char* kind, const char* part) {
    return json_of(run)[kind][part].get<double>();
  };
  EXPECT_LT(of(with(words, {"bf16"}), "breakdown_ms", "other"),
            of(kSmall, "breakdown_ms", "other"));
  const Words replicas = {"step", "llama3-8b", "--layers", "4", "--mesh", "dp=8"};
  const auto gradients = [](const Words& run) {
    return json_of(run)["memory"]["parts"]["gradients"].get<double>();
  };
  EXPECT_DOUBLE_EQ(gradients(with(replicas, {"--reduce-dtype", "bf16"})),
                   gradients(replicas) / 2.0);
  const Words library = with(replicas, {"--library"});
  EXPECT_EQ(json_of(with(library, {"--reduce-dtype", "bf16"})), json_of(library));
  EXPECT_DOUBLE_EQ(gradients(with(library, {"--reduce-dtype", "f32"})), gradients(replicas));
}

TEST(StepCommand, TheForeachOptimizerMovesMoreBytesThanTheFusedOne) {
  const Words words = {"step", "llama3-8b", "--mesh", "fsdp=8"};
  const auto other_ms = [&](const char* optimizer) {
    return json_of(with(words, {"--optimizer", optimizer}))["breakdown_ms"]["other"].get<double>();
  };
  // A rank updates an eighth of the parameters, whose gradients' norm reads 8 bytes of each
  // besides. No H100 moves more than 3.35 TB/s.
  const double least_ms = (80.0 - 28.0) * 8.03e9 / 8 / 3.35e12 * 1e3;
  const double more = other_ms("foreach") - other_ms("fused");
  EXPECT_GT(more, least_ms);
  EXPECT_LT(more, 2.0 * least_ms);
}

TEST(StepCommand, AnImbalanceOfExpertsCostsTime) {
  const Words words = {"step", "mixtral-8x7b", "--mesh", "fsdp=64,ep=8", "--library"};
  const double even = json_of(words)["step_ms"].get<double>();
  EXPECT_GT(json_of(with(words, {"--load-imbalance", "1.5"}))["step_ms"].get<double>(), even);
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--load-imbalance", "1.5"}, 2,
               "--load-imbalance: llama3-8b has no experts");
}

TEST(StepCommand, PipelinesHaveABubble) {
  const Words words = {"step",         "llama3-8b", "--mesh",   "dp=2,tp=2,pp=4",
                       "--grad-accum", "8",         "--library"};
  const auto bubble = [&](const Words& more) {
    return json_of(with(words, more))["breakdown_ms"]["bubble"].get<double>();
  };
  const double plain = bubble({});
  EXPECT_GT(plain, 0.0);
  EXPECT_LT(bubble({"--schedule", "zero-bubble"}), plain);
  EXPECT_LT(bubble({"--chunks", "2"}), plain);
}

TEST(StepCommand, WritesATraceOfOneMicroBatch) {
  const TemporaryFolder folder;
  const ProcessResult result = run_shardlab(with(kSmall, {"--trace", "t.json"}), folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json trace = json::parse(read_text(folder.path() / "t.json"));
  EXPECT_GT(trace["traceEvents"].size(), 10U);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      EXPECT_GT(event["dur"].get<double>(), 0.0);
    }
  }
}

// The backward pass of SiLU subtracts a sigmoid from ones of its shape. That the ones take a shape
// from it does not keep the three from being one kernel.
TEST(StepCommand, AKernelThatIsGivenOnlyAShapeSplitsNoFusion) {
  const TemporaryFolder folder;
  const ProcessResult made = run_shardlab({"program", "llama3-8b", "--layers", "1", "--batch", "8",
                                           "--seqlen", "1024", "--loss", "--out", "p.json"},
                                          folder.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ProcessResult step = run_shardlab({"step", "p.json", "--topology", "h100", "--mesh",
                                           "fsdp=8", "--compile", "--trace", "t.json"},
                                          folder.path());
  ASSERT_EQ(step.exit_code, 0) << step.err;
  const json trace = json::parse(read_text(folder.path() / "t.json"));
  std::map<std::string, int> kernels;
  for (const json& event : trace["traceEvents"]) {
    ++kernels[event["name"].get<std::string>()];
  }
  EXPECT_EQ(kernels.count("sigmoid"), 0U);
  EXPECT_EQ(kernels.count("full_like"), 0U);
  EXPECT_EQ(kernels["embedding"], 1);
}

// What kernels lose to collectives beside them is time of kernels in a profile.
TEST(StepCommand, BesideAProfileOfItsOwnTimelineExposesAsMuch) {
  const TemporaryFolder folder;
  const Words asked = {"step", "llama3-8b", "--layers", "4", "--mesh", "fsdp=8", "--seq", "4096"};
  const auto asked_with = [&](const Words& words) {
    Words all = asked;
    all.insert(all.end(), words.begin(), words.end());
    return run_shardlab(all, folder.path());
  };
  ASSERT_EQ(asked_with({"--trace", "t.json"}).exit_code, 0);
  const json trace = json::parse(read_text(folder.path() / "t.json"));
  std::map<int, std::string> streams;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") {
      streams[event["tid"]] = event["args"]["name"];
    }
  }
  json events = json::array();
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || streams[event["tid"]] == "host") continue;
    const bool computes = streams[event["tid"]] == "compute";
    const int stream = event["tid"].get<int>() + 7;
    json args = {{"device", 0}, {"stream", stream}, {"correlation", events.size() + 1}};
    if (!computes) args["Collective name"] = "_allgather_base";
    events.push_back({{"ph", "X"},
                      {"cat", "kernel"},
                      {"name", computes ? "kernel" : "ncclDevKernel_AllGather"},
                      {"pid", 0},
                      {"tid", stream},
                      {"ts", event["ts"]},
                      {"dur", event["dur"]},
                      {"args", std::move(args)}});
  }
  const json profile = {{"schemaVersion", 1},
                        {"deviceProperties", {{{"id", 0}, {"name", "NVIDIA H100 80GB HBM3"}}}},
                        {"traceEvents", events}};
  folder.write("p.json", profile.dump());
  const ProcessResult result = asked_with({"--profile", "p.json", "--format", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json out = json::parse(result.out);
  const json& breakdown = out["breakdown_ms"];
  const json& parts = out["profile"]["parts"];
  const double contention = breakdown["exposed"]["contention"];
  EXPECT_GT(contention, 1.0);
  EXPECT_NEAR(parts["exposed"]["predicted_ms"], parts["exposed"]["profiled_ms"], 0.05);
  double kernels = 0.0;
  double with_contention = 0.0;
  for (const char* part : {"gemm", "attention", "other"}) {
    kernels += breakdown[part].get<double>();
    with_contention += parts[part]["predicted_ms"].get<double>();
  }
  EXPECT_NEAR(with_contention, kernels + contention, 1e-9);
}

TEST(StepCommand, StandsBesideAProfile) {
  const std::string bert = SHARDLAB_SOURCE_DIR "/tests/golden/traces/h100_bert_small.json";
  const json out = json_of(with(kSmall, {"--profile", bert}));
  const json& profile = out["profile"];
  EXPECT_EQ(profile["gpu"], "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(profile["steps"], 1);
  EXPECT_EQ(profile["is_marked"], true);
  const json& parts = profile["parts"];
  EXPECT_NEAR(parts["gemm"]["profiled_ms"], 0.197598, 1e-9);
  EXPECT_NEAR(parts["attention"]["profiled_ms"], 0.037408, 1e-9);
  // With what they lose to the collectives beside them.
  EXPECT_GT(parts["gemm"]["predicted_ms"], out["breakdown_ms"]["gemm"]);
  EXPECT_EQ(parts["step"]["predicted_ms"], out["step_ms"]);
  EXPECT_NEAR(
      parts["step"]["error_percent"],
      100.0 * (out["step_ms"].get<double>() / parts["step"]["profiled_ms"].get<double>() - 1.0),
      1e-6);
  EXPECT_TRUE(parts["exposed"]["error_percent"].is_null());
  const ProcessResult text = run_shardlab(with(kSmall, {"--profile", bert}));
  EXPECT_NE(text.out.find("h100_bert_small.json (NVIDIA H100 80GB HBM3, 1 step)\n"),
            std::string::npos)
      << text.out;
  EXPECT_EQ(text.out.find("note: the profile"), std::string::npos) << text.out;
  Words on_a100 = with(kSmall, {"--profile", bert});
  std::replace(on_a100.begin(), on_a100.end(), std::string("h100"), std::string("a100"));
  const ProcessResult other = run_shardlab(on_a100);
  EXPECT_NE(other.out.find("  note: the profile is of NVIDIA H100 80GB HBM3, and the prediction of "
                           "a100; --topology h100 predicts the profiled GPU\n"),
            std::string::npos)
      << other.out;

  const TemporaryFolder folder;
  const std::string name = "NVIDIA H100 80GB HBM3";
  std::string trace = read_text(bert);
  ASSERT_NE(trace.find(name), std::string::npos);
  folder.write("pcie.json", trace.replace(trace.find(name), name.size(), "NVIDIA H100 PCIe"));
  const ProcessResult pcie = run_shardlab(with(kSmall, {"--profile", "pcie.json"}), folder.path());
  EXPECT_NE(
      pcie.out.find("  note: the profile is of NVIDIA H100 PCIe, and the prediction of h100; "
                    "no topology of the profiled GPU is shipped, and h100 is that of the most "
                    "similar one\n"),
      std::string::npos)
      << pcie.out;
  folder.write("host.json", R"({"traceEvents": []})");
  folder.write("plan.json", "{}");
  expect_error(with(kSmall, {"--profile", "host.json"}), 3,
               "host.json:/traceEvents: found no event of the category \"kernel\"; valid: a trace "
               "that PyTorch's profiler wrote with ProfilerActivity.CUDA",
               folder.path());
  expect_error(
      with(kSmall, {"--profile", bert, "--summary"}), 2,
      "--profile: a report does not show the comparison; valid: without --out and --summary");
  expect_error(with(kSmall, {"--profile", "plan.json"}), 3,
               "plan.json: missing key \"traceEvents\"", folder.path());
}

TEST(StepCommand, BadWordsSayWhatIsValid) {
  const ProcessResult unknown = run_shardlab({"step", "llama3-8", "--mesh", "fsdp=8"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err.find("shardlab: step: unknown model \"llama3-8\" (did you mean "
                             "\"llama3-8b\"?); valid: "),
            0U)
      << unknown.err;
  expect_error({"step", "llama3-8b", "--mesh", "tp=3"}, 2,
               "tp=3 does not divide the number of attention heads, 32");
  expect_error({"step", "llama3-8b", "--mesh", "xp=3"}, 2,
               "--mesh: mesh \"xp=3\": at position 0: expected one of dp, fsdp, tp, pp, cp, ep");
  expect_error({"step", "llama3-8b", "--mesh", "pp=4", "--schedule", "1f1b", "--chunks", "2"}, 2,
               "--chunks: only the interleaved schedule has several stages on a rank");
  expect_error({"step", "llama3-8b", "--mesh", "pp=4", "--chunks", "3", "--grad-accum", "5"}, 2,
               "a pipeline of 4 ranks with 3 stages each can't run 5 micro-batches in this "
               "schedule; valid: a "
               "multiple of 4");
  expect_error({"step", "llama3-8b", "--mesh", "pp=4", "--chunks", "2", "--grad-accum", "9"}, 2,
               "a pipeline of 4 ranks with 2 stages each can't run 9 micro-batches in this "
               "schedule; valid: a "
               "multiple of 4");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--schedule", "gpipe"}, 2,
               "--schedule: found gpipe for a mesh without a pipeline; valid: with pp above 1");
  expect_error({"step", "llama3-8b", "--mesh", "pp=4", "--schedule", "interleaved"}, 2,
               "--schedule: found interleaved with one stage on each rank; valid: with --chunks "
               "above 1");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--async-tp"}, 2,
               "--async-tp: found a mesh without tensor parallelism; valid: with tp above 1");
  expect_error({"step", "mixtral-8x7b", "--mesh", "fsdp=8,ep=8", "--load-imbalance", "9"}, 2,
               "--load-imbalance: found 9 with ep=8, where the busiest rank has all tokens at "
               "most; valid: 1 to 8");
  expect_error({"step", "mixtral-8x7b", "--mesh", "fsdp=8", "--load-imbalance", "2"}, 2,
               "--load-imbalance: found 2, but without ep each rank has all experts; valid: 1");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--precision", "nvfp4"}, 2,
               "--precision: found nvfp4, but topology h100 states no rate of f4e2m1 "
               "(device.peak_tflops), which each GPU has whose products scale blocks of elements; "
               "valid: bf16, fp8-tensorwise, fp8-rowwise, fp8-blockwise, or a GPU that has it");
  expect_error(
      {"step", "llama3-8b", "--mesh", "fsdp=8", "--precision", "mxfp8", "--topology", "mi300x"}, 2,
      "--precision: found mxfp8, but topology mi300x states no rate of f4e2m1 "
      "(device.peak_tflops), which each GPU has whose products scale blocks of elements; "
      "valid: bf16, fp8-tensorwise, fp8-rowwise, fp8-blockwise, or a GPU that has it");
  expect_error(
      {"step", "llama3-8b", "--mesh", "fsdp=8", "--attention", "cudnn", "--topology", "mi355x"}, 2,
      "--attention: found cudnn, but topology mi355x has a GPU of AMD "
      "(device.compute_capability 95), on which cuDNN does not run; valid: flash");
  for (const char* option : {"--kv-heads", "--head-dim"}) {
    expect_error({"step", "deepseek-v3", "--mesh", "fsdp=8", option, "128"}, 2,
                 std::string(option) +
                     ": deepseek-v3 has latent attention, which keeps one latent for the keys and "
                     "values of all heads; valid: without it");
  }
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--heads", "33", "--kv-heads", "11"}, 2,
               "--heads: 33 does not divide the width, 4096; valid: a divisor, or with --head-dim");
  expect_error(
      {"step", "llama3-8b", "--mesh", "fsdp=8", "--precision", "fp8-rowwise", "--topology", "a100"},
      2,
      "--precision: found fp8-rowwise, but topology a100 states no rate of f8e4m3 "
      "(device.peak_tflops); valid: bf16, or a GPU that has it");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--compile", "--library"}, 2,
               "--compile, --library: found both; valid: at most one of them");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--layers", "16777216"}, 2,
               "step: --layers: found \"16777216\"; valid: an integer from 1 to 65536");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--experts", "8"}, 2,
               "--experts: llama3-8b has no experts");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--kv-heads", "5"}, 2,
               "kv_heads=5 does not divide the number of attention heads, 32");
  expect_error({"step", "mixtral-8x7b", "--mesh", "fsdp=8", "--experts-per-token", "9"}, 2,
               "each token goes to 9 experts; valid: at most the number of experts, 8");
  expect_error({"step", "llama3-8b", "--mesh", "fsdp=8", "--stack", "dtensor"}, 2,
               "--stack: dtensor prices no kernels, so it predicts no steps; valid: a stack with a "
               "compute model, such as steps");
  EXPECT_EQ(run_shardlab({"step", "llama3-8b"}).exit_code, 2);
}

// -- validate --steps and calibrate --steps

constexpr const char* kRows =
    "id,source_repo,framework,model,layers,gpu,gpus,fsdp,seq,micro_batch,compile,act_ckpt,"
    "tokens_per_s_per_gpu,memory_gib\n"
    "a,x/y,torchtitan,llama3-8b,4,H100,8,8,4096,2,yes,none,40000,30\n"
    "b,x/y,torchtitan,llama3-8b,4,H100,8,8,8192,1,no,none,30000,\n"
    "c,x/z,torchtitan,llama3-8b,4,A100,8,8,4096,1,yes,full,14000,\n"
    "d,x/z,torchtitan,llama3-8b,4,MI300X,8,8,4096,1,yes,full,14000,\n";

TEST(StepCommand, PrintsSmallRatesWithDigitsAfterThePoint) {
  const ProcessResult result =
      run_shardlab({"step", "llama3-8b", "--layers", "65536", "--mesh", "fsdp=8"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::regex rate(": [0-9]\\.[0-9]{2} tokens per second per GPU\n");
  EXPECT_TRUE(std::regex_search(result.out, rate)) << result.out;
}

// Every published run ran, so that one which is said not to fit is misjudged.
TEST(ValidateSteps, CountsTheRunsThatAreSaidNotToFit) {
  const TemporaryFolder folder;
  folder.write("rows.csv",
               std::string(kRows) + "e,x/y,torchtitan,llama3-70b,,H100,8,8,8192,1,no,none,500,\n");
  const Words words = {"validate", "--steps", "rows.csv"};
  const json out = json_of(words, folder.path());
  EXPECT_EQ(out["memory"]["said_not_to_fit"], 1);
  const json& large = out["predictions"].back();
  EXPECT_GT(large["memory_gib"].get<double>(), large["device_memory_gib"].get<double>());
  const ProcessResult text = run_shardlab(words, folder.path());
  EXPECT_NE(
      text.out.find("  said to need more memory than their GPU has, although they ran: 1 of 4\n"),
      std::string::npos)
      << text.out;
}

TEST(ValidateSteps, PrintsTheKeysOfEveryGroup) {
  const TemporaryFolder folder;
  folder.write("rows.csv", kRows);
  const json out = json_of({"validate", "--steps", "rows.csv"}, folder.path());
  EXPECT_EQ(out["rows"], 4);
  EXPECT_EQ(out["expressed"], 3);
  ASSERT_EQ(out["not_expressed"].size(), 1U);
  EXPECT_EQ(out["not_expressed"][0]["id"], "d");
  EXPECT_NE(out["not_expressed"][0]["reason"].get<std::string>().find("MI300X"), std::string::npos);
  for (const char* key : {"median_ape_percent", "p90_ape_percent", "bias_percent"}) {
    EXPECT_TRUE(out[key].is_number()) << key;
  }
  for (const char* cut : {"source", "gpu", "parallelism", "precision"}) {
    int rows = 0;
    for (const auto& [name, group] : out["by"][cut].items()) {
      rows += group["rows"].get<int>();
      EXPECT_TRUE(group["median_ape_percent"].is_number()) << cut << " " << name;
      EXPECT_TRUE(group["p90_ape_percent"].is_number()) << cut << " " << name;
      EXPECT_TRUE(group["bias_percent"].is_number()) << cut << " " << name;
    }
    EXPECT_EQ(rows, 3) << cut;
  }
  EXPECT_EQ(out["by"]["source"]["x/y"]["rows"], 2);
  EXPECT_EQ(out["by"]["parallelism"]["fsdp"]["rows"], 3);
  EXPECT_EQ(out["memory"]["rows"], 1);
  EXPECT_EQ(out["memory"]["said_not_to_fit"], 0);
  ASSERT_EQ(out["predictions"].size(), 3U);
  const json& first = out["predictions"][0];
  EXPECT_EQ(first["id"], "a");
  EXPECT_EQ(first["published"], 40000.0);
  EXPECT_NEAR(first["error_percent"].get<double>(),
              100.0 * (first["tokens_per_s_per_gpu"].get<double>() / 40000.0 - 1.0), 1e-9);
  EXPECT_GT(first["memory_gib"].get<double>(), 1.0);
  EXPECT_NEAR(out["memory"]["median_ape_percent"].get<double>(),
              std::abs(100.0 * (first["memory_gib"].get<double>() / 30.0 - 1.0)), 1e-9);
}

TEST(ValidateSteps, WarnsOfColumnsThatAreIgnored) {
  const TemporaryFolder folder;
  folder.write("rows.csv", replaced(kRows, "act_ckpt", "act_chkpt"));
  const json out = json_of({"validate", "--steps", "rows.csv"}, folder.path());
  EXPECT_EQ(
      out["warnings"].back(),
      "no figure depends on the column \"act_chkpt\" (did you mean \"act_ckpt\"?); valid: the "
      "columns of configs/steptimes/README.md");
}

TEST(ValidateSteps, SaysTheSameInWords) {
  const TemporaryFolder folder;
  folder.write("rows.csv", kRows);
  const ProcessResult text = run_shardlab({"validate", "--steps", "rows.csv"}, folder.path());
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.find("3 of 4 published steps under steps, errors of tokens per second per GPU "
                          "in percent\n"),
            0U)
      << text.out;
  EXPECT_NE(text.out.find("  not expressed: d: the GPU \"MI300X\" is not known; valid: names with "
                          "A100, H100, H200, B200, B300, GB200 or GB300\n"),
            std::string::npos);
}

constexpr const char* kRowsOfNetworks =
    "id,source_repo,framework,model,gpu,gpus_per_host,inter_host,gpus,fsdp,seq,micro_batch,compile,"
    "act_ckpt,tokens_per_s_per_gpu\n";
std::string row_on(const std::string& id, const std::string& gpu, const std::string& inter_host,
                   int gpus = 16) {
  const std::string ranks = std::to_string(gpus);
  return id + ",x/y,torchtitan,llama3-8b," + gpu + ",8,\"" + inter_host + "\"," + ranks + "," +
         ranks + ",4096,1,yes,selective,5000\n";
}

// A row is predicted on the network that it states, as `--set` would say it.
TEST(ValidateSteps, RowsHaveTheNetworkThatTheyState) {
  const TemporaryFolder folder;
  const auto tokens = [&](const std::string& inter_host, const Words& more = {}) {
    folder.write("rows.csv", kRowsOfNetworks + row_on("a", "H100", inter_host));
    const json out = json_of(with({"validate", "--steps", "rows.csv"}, more), folder.path());
    return out["predictions"][0]["tokens_per_s_per_gpu"].get<double>();
  };
  const double usual = tokens("InfiniBand NDR 400 Gb/s a GPU");
  EXPECT_EQ(tokens(""), usual);
  EXPECT_EQ(tokens("RoCE 400 Gb/s a GPU"), usual);
  const double quarter = tokens("InfiniBand, 200 Gb/s a host");
  EXPECT_LT(quarter, 0.9 * usual);
  EXPECT_EQ(tokens("", {"--set", "links.network.bandwidth_gb_per_s=3.125"}), quarter);
  EXPECT_EQ(tokens("RoCE 100 Gb/s a GPU", {"--set", "links.network.bandwidth_gb_per_s=3.125"}),
            quarter);
  EXPECT_LT(tokens("Ethernet 25 Gb/s a host"), 0.5 * quarter);
  EXPECT_LT(tokens("EFA, 4 x 100 Gb/s per node"), 0.9 * usual);
}

TEST(ValidateSteps, SaysWhichHardwareIsAssumed) {
  const TemporaryFolder folder;
  folder.write("rows.csv", kRowsOfNetworks + row_on("a", "H100", "carrier pigeons") +
                               row_on("b", "H100", "") + row_on("c", "NVIDIA H100 PCIe", "", 8) +
                               row_on("d", "GH200 96GB", "400 Gb/s a GPU") +
                               row_on("e", "A100-SXM4 40 GB", "200 Gb/s a GPU"));
  const std::vector<std::string> warnings = {
      "no topology of the GPU \"NVIDIA H100 PCIe\" is shipped; h100 is used instead, for 1 row",
      "column inter_host: found no rate of the network in 2 rows (\"\", \"carrier pigeons\"), so "
      "that of the topology h100 is assumed, 50 GB/s a GPU; valid: a rate such as \"400 Gb/s a "
      "GPU\", \"1600 Gb/s a host\" or \"8 x 200 Gb/s per node\""};
  for (const char* command : {"validate", "calibrate"}) {
    const Words words = {command, "--steps", "rows.csv"};
    const ProcessResult text = run_shardlab(words, folder.path());
    EXPECT_EQ(text.err, "shardlab: " + warnings[0] + "\nshardlab: " + warnings[1] + "\n");
    EXPECT_EQ(json_of(words, folder.path())["warnings"], json(warnings));
  }
  const json out = json_of({"validate", "--steps", "rows.csv"}, folder.path());
  ASSERT_EQ(out["not_expressed"].size(), 1U);
  EXPECT_EQ(out["not_expressed"][0]["id"], "d");
  EXPECT_LT(out["predictions"][3]["device_memory_gib"].get<double>(), 40.0);
}

TEST(ValidateSteps, ThePublishedRowsAreShipped) {
  const json out = json_of({"validate", "--steps", "published"});
  EXPECT_EQ(out["warnings"], json::array());
  EXPECT_EQ(out["rows"], 434);
  EXPECT_EQ(out["expressed"].get<std::size_t>() + out["not_expressed"].size(), 434U);
  EXPECT_GE(out["expressed"], 430);
  EXPECT_EQ(out["memory"]["rows"], 34);
  EXPECT_EQ(out["by"]["source"].size(), 13U);
  EXPECT_EQ(out["predictions"].size(), out["expressed"].get<std::size_t>());
}

// The ratio of two rows of one setting is predicted over published, whatever both are off.
TEST(ValidateSteps, RatiosOverGpus) {
  const TemporaryFolder folder;
  folder.write("rows.csv",
               "id,model,gpu,gpus,fsdp,seq,micro_batch,tokens_per_s_per_gpu\n"
               "a,llama3-8b,H100,8,8,8192,1,6000\nb,llama3-8b,H100,64,64,8192,1,5000\n"
               "c,llama3-8b,H100,8,8,4096,1,6000\n");
  const json out = json_of({"validate", "--steps", "rows.csv"}, folder.path());
  ASSERT_EQ(out["ratios_over_gpus"]["pairs"], 1);
  std::map<std::string, double> tokens;
  for (const json& each : out["predictions"]) {
    tokens[each["id"]] = each["tokens_per_s_per_gpu"].get<double>();
  }
  EXPECT_NEAR(out["ratios_over_gpus"]["bias_percent"].get<double>(),
              100.0 * (tokens["b"] / tokens["a"] / (5.0 / 6.0) - 1.0), 1e-9);
}

TEST(ValidateSteps, BadRowsAndOptionsSayWhatIsValid) {
  const TemporaryFolder folder;
  folder.write(
      "bad.csv",
      "id,model,gpu,gpus,seq,micro_batch,tokens_per_s_per_gpu\na,llama3-8b,H100,8,x,1,2\n");
  folder.write("short.csv",
               "id,model,gpu,gpus,seq,micro_batch,tokens_per_s_per_gpu\na,llama3-8b,H100\n");
  for (const char* command : {"validate", "calibrate"}) {
    expect_error({command, "--steps", "missing.csv"}, 3,
                 "missing.csv: can't be read: No such file or directory; valid: a file",
                 folder.path());
    expect_error(
        {command, "--steps", "bad.csv"}, 3,
        "bad.csv:line 2: column seq: found \"x\"; valid: a number that is not negative, or "
        "nothing",
        folder.path());
    expect_error({command, "--steps", "short.csv"}, 3,
                 "short.csv:line 2: found 3 fields; valid: 7, as many as there are columns",
                 folder.path());
    expect_error(
        {command, "--steps", "published", "--stack", "dtensor"}, 2,
        "--stack: dtensor prices no kernels, so it predicts no steps; valid: a stack with a "
        "compute model, such as steps");
  }
  expect_error(
      {"validate", "--steps", "published", "--rows"}, 2,
      "--steps: its result is one document on stdout, and its rows name their hardware; "
      "valid: with --stack, --scoreboard, --max-median-ape-percent, --format and --set alone");
  const std::vector<std::pair<std::string, Words>> of_files = {
      {"a FILE", {"more.log"}},
      {"--model", {"--model", "nccl"}},
      {"--hosts", {"--hosts", "7"}},
      {"--gpus-per-host", {"--gpus-per-host", "8"}}};
  for (const auto& [name, words] : of_files) {
    expect_error(with({"calibrate", "--steps", "published"}, words), 2,
                 "--steps: found " + name +
                     ", but the rows name their hardware, and are all fitted; valid: with --stack, "
                     "--out and --format alone");
  }
}

TEST(CalibrateSteps, WritesAStackThatPredictsItsRows) {
  const TemporaryFolder folder;
  folder.write("rows.csv", kRows);
  const json fit =
      json_of({"calibrate", "--steps", "rows.csv", "--out", "mine.json"}, folder.path());
  EXPECT_EQ(fit["model"], "steps");
  EXPECT_EQ(fit["rows_used"], 3);
  ASSERT_EQ(fit["rows_refused"].size(), 1U);
  EXPECT_EQ(fit["rows_refused"][0]["row"], "d");
  for (const json& each : fit["parameters"]) {
    EXPECT_LE(each["low_95"].get<double>(), each["value"].get<double>()) << each;
    EXPECT_GE(each["high_95"].get<double>(), each["value"].get<double>()) << each;
  }
  const json fitted =
      json_of({"validate", "--steps", "rows.csv", "--stack", "mine.json"}, folder.path());
  EXPECT_NEAR(fitted["median_ape_percent"].get<double>(),
              fit["residuals"]["median_ape_percent"].get<double>(), 1e-6);
  const json plain = json_of({"validate", "--steps", "rows.csv"}, folder.path());
  EXPECT_LT(fitted["median_ape_percent"].get<double>(), plain["median_ape_percent"].get<double>());
  // Terms that were fitted to a source hold for a step of that source, and for no other.
  const Words same = {"step",     "llama3-8b", "--layers",      "4", "--mesh",    "fsdp=8",
                      "--seq",    "4096",      "--micro-batch", "2", "--compile", "--stack",
                      "mine.json"};
  const double own =
      json_of(with(same, {"--source", "x/y"}), folder.path())["tokens_per_s_per_gpu"].get<double>();
  const double other = json_of(same, folder.path())["tokens_per_s_per_gpu"].get<double>();
  EXPECT_LT(std::abs(own - 40000.0), std::abs(other - 40000.0));
  expect_error(
      with(same, {"--source", "x/w"}), 2,
      "--source: found \"x/w\", to which no term that holds for this run is fitted; valid: x/y",
      folder.path());
  // A stack with terms predicts a single step too.
  EXPECT_GT(json_of(with(kSmall, {"--stack", "mine.json"}), folder.path())["step_ms"].get<double>(),
            0.0);
}

TEST(CalibrateSteps, RowsThatCantBeExpressedAreNothingToFit) {
  const TemporaryFolder folder;
  folder.write("rows.csv",
               "id,model,gpu,gpus,seq,micro_batch,tokens_per_s_per_gpu\na,llama3-8b,TPU,8,1,1,2\n");
  expect_error({"calibrate", "--steps", "rows.csv"}, 2,
               "rows.csv: no row can be expressed, so there is nothing to fit", folder.path());
}

}  // namespace step_test
}  // namespace shardlab::testing_support
