// shardlab measure: times real collectives and kernels on this host's GPUs, and verifies plans.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <set>

#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_log.h"
#include "runner/base/env.h"
#include "runner/base/read_file.h"
#include "runner/base/terminal.h"
#include "runner/base/write_file.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/launch/rank_processes.h"
#include "runner/measure/collective_run.h"
#include "runner/measure/kernel_run.h"
#include "runner/measure/nccl_environment.h"
#include "runner/measure/plan_run.h"
#include "runner/measure/table.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMostMeasuredRanks = 4096;
// The rendezvous times out this many seconds after the watchdog, because the watchdog's message
// says what was running.
constexpr double kGrace = 1.0;
// Seconds to wait for the other ranks. Ranks that are started together meet within seconds, or
// within a minute on a busy cluster.
constexpr double kPatience = 60.0;

struct MeasureArguments {
  std::vector<std::string> collectives;
  std::string min_bytes = "1KiB";
  std::string max_bytes = "64MiB";
  double step_factor = 2.0;
  std::vector<std::string> dtypes = {"f32"};
  std::int64_t ranks = 0;  // 0 means the launcher's number, or one per GPU without a launcher
  int iterations = 20;
  int warmup = 5;
  bool one_gpu = false;
  bool one_process = false;
  std::vector<std::string> kernels;
  std::string kernel_bytes = "1GiB";
  std::int64_t verify_plans = 0;
  std::string stack = "shardlab";
  double time_limit_s = 300.0;
  double stall_limit_s = 60.0;
  int port = 0;
  std::string backend = "nccl";
  std::string topology_xml;
  std::string nccl_log;
  std::string id;
  std::string out;

  [[nodiscard]] bool on_cpu() const { return backend == "cpu"; }
};

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    words.emplace_back(list.substr(0, list.find(' ')));
    list.remove_prefix(std::min(list.size(), words.back().size() + 1));
  }
  return words;
}

CollectiveRequest request_of(const MeasureArguments& arguments) {
  CollectiveRequest request;
  for (const std::string& name : arguments.collectives) {
    request.collectives.push_back(*collective_from_name(name));
  }
  for (const std::string& name : arguments.dtypes) request.dtypes.push_back(*dtype_from_name(name));
  request.min_bytes = parse_option("--min-bytes", [&] { return parse_bytes(arguments.min_bytes); });
  request.max_bytes = parse_option("--max-bytes", [&] { return parse_bytes(arguments.max_bytes); });
  if (request.min_bytes < 1 || request.min_bytes > request.max_bytes) {
    throw InputError("--min-bytes and --max-bytes: found " + arguments.min_bytes + " and " +
                     arguments.max_bytes +
                     "; valid: --min-bytes of at least 1 byte, and --max-bytes no smaller");
  }
  request.step_factor = arguments.step_factor;
  request.warmup = arguments.warmup;
  request.iterations = arguments.iterations;
  return request;
}

std::string now_text(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &utc)};
}

// The version of the kernel driver, which CUDA does not report: the number after "Kernel Module".
std::string driver_version() {
  std::string text;
  try {
    text = read_text_file("/proc/driver/nvidia/version");
  } catch (const std::exception&) {
    return "";
  }
  const std::size_t found = text.find("Kernel Module");
  if (found == std::string::npos) return "";
  const std::size_t begin = text.find_first_of("0123456789", found);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_first_not_of("0123456789.", begin) - begin);
}

// A file into which NCCL writes its choices. It is kept if the user named it; otherwise it is
// temporary, and removed at the end.
class ChoicesFile {
 public:
  ChoicesFile(bool wanted, const std::string& kept) : is_kept_(!kept.empty()) {
    if (!wanted) return;
    if (is_kept_) {
      write_file(kept, "");  // empties the file, and reports a missing folder now
      path_ = kept;
      return;
    }
    std::string name = (std::filesystem::temp_directory_path() / "shardlab-nccl-XXXXXX").string();
    const int fd = mkstemp(name.data());
    if (fd < 0) return;
    close(fd);
    path_ = name;
  }
  ~ChoicesFile() {
    std::error_code ignored;
    if (!path_.empty() && !is_kept_) std::filesystem::remove(path_, ignored);
  }
  ChoicesFile(const ChoicesFile&) = delete;
  ChoicesFile& operator=(const ChoicesFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void name_choices(std::vector<MeasuredRow>& rows) const {
    if (path_.empty()) return;
    for (const NcclChoice& choice : read_nccl_choices(read_text_file(path_))) {
      for (MeasuredRow& row : rows) {
        if (row.collective != choice.collective || row.bytes != choice.bytes) continue;
        row.algorithm = choice.algorithm;
        row.protocol = choice.protocol;
      }
    }
  }

 private:
  std::string path_;
  bool is_kept_ = false;
};

std::string host_name() {
  utsname name{};
  uname(&name);
  return name.nodename;
}

std::int64_t count_hosts(Rendezvous& meeting) {
  const std::vector<std::string> names = meeting.all_gather(host_name());
  return std::ssize(std::set<std::string>(names.begin(), names.end()));
}

RankRange ranks_of(const MeasureArguments& arguments, const std::optional<LaunchPlace>& place,
                   std::int64_t ranks) {
  RankRange range;
  range.one_device = arguments.one_gpu;
  if (place) {
    range.world = place->world;
    range.first = place->rank;
    // Some launchers make only its own GPU visible to each rank.
    const bool is_bound = place->launcher != "shardlab" && visible_gpus() == 1;
    range.first_device = is_bound ? 0 : place->local_rank;
  } else {
    range.world = ranks;
    range.local = ranks;
  }
  return range;
}

// A set that describes where and when was measured, without its rows.
MeasurementSet set_of(const MeasureArguments& arguments, const BackendFacts& facts,
                      const RankRange& range, std::int64_t hosts) {
  MeasurementSet set;
  set.hosts = hosts;
  set.ranks = range.world;
  set.gpus_per_host = (set.ranks + set.hosts - 1) / set.hosts;
  set.gpus_per_process = range.one_device ? 1 : range.local;
  set.gpu = facts.device;
  if (!arguments.on_cpu()) {
    set.driver = driver_version() + (facts.driver.empty() ? "" : " (" + facts.driver + ")");
  }
  set.nccl_version = facts.library;
  set.clocks = facts.clocks;
  set.intra = facts.transport;
  set.date = now_text("%Y-%m-%d");
  set.name = arguments.id;
  if (set.name.empty() && !arguments.out.empty()) set.name = set_name_of(arguments.out);
  if (set.name.empty()) set.name = "measure-" + now_text("%Y%m%dT%H%M%SZ");
  set.source = "record:" + set.name;
  return set;
}

// What every process of the world runs. Process 0 returns the measured set.
MeasurementSet measure(const MeasureArguments& arguments, const Session& session,
                       const std::optional<LaunchPlace>& place, std::int64_t ranks,
                       std::vector<std::string>& remarks) {
  const CollectiveRequest request = request_of(arguments);
  const KernelRequest kernels = {
      .kernels = arguments.kernels,
      .max_bytes =
          parse_option("--kernel-bytes", [&] { return parse_bytes(arguments.kernel_bytes); }),
      .iterations = arguments.iterations};
  const ConfigStore store = session.store();
  StackEvaluator evaluator(store.stack(arguments.stack), store.topology(session.topology));
  const Deadline deadline = deadline_in(arguments.time_limit_s);
  const RankRange range = ranks_of(arguments, place, ranks);
  const ChoicesFile choices(
      !arguments.on_cpu() && range.first == 0 && read_env("NCCL_DEBUG").empty(),
      arguments.nccl_log);
  const int nccl_version = arguments.on_cpu() ? 0 : nccl_runtime_version();
  const std::string settings =
      arguments.on_cpu() ? ""
                         : apply_settings(settings_for(
                               {.rank = range.first,
                                .ranks = range.world,
                                .one_gpu = arguments.one_gpu,
                                .nccl_version = nccl_version,
                                .log_file = choices.path(),
                                .topology_xml = range.first == 0 ? arguments.topology_xml : ""}));
  Rendezvous meeting =
      place ? Rendezvous::join(*place, std::min(kPatience, arguments.time_limit_s / 2),
                               deadline_in(arguments.time_limit_s + kGrace))
            : Rendezvous();
  Watchdog watchdog(
      meeting,
      {.stall_s = arguments.stall_limit_s, .whole = deadline, .whole_s = arguments.time_limit_s});
  watchdog.step("start of the communicators");
  const std::unique_ptr<Backend> backend =
      arguments.on_cpu() ? make_cpu_backend(meeting, range) : make_nccl_backend(meeting, range);
  const MeasuringRun run = {*backend, meeting, watchdog};
  const BackendFacts facts = backend->facts();

  MeasurementSet set = set_of(arguments, facts, range, count_hosts(meeting));
  set.settings = settings;
  const auto caveat = [&](const std::string& text) {
    set.health = Health::kUnhealthy;
    set.health_reason = "source: " + text;
    set.notes = text;
    remarks.push_back(text);
  };
  if (arguments.on_cpu()) {
    caveat("the backend is a stand-in on CPUs, so the times say nothing about GPUs");
  }
  if (!arguments.on_cpu() && arguments.one_gpu) caveat(one_gpu_caveat(nccl_version));

  if (arguments.verify_plans > 0) {
    set.verified_plans =
        verify_plans(run, evaluator, {.plans = arguments.verify_plans, .seed = session.seed});
  }
  set.rows = measure_collectives(run, request);
  if (range.first == 0) {
    KernelRun measured = measure_kernels(run, kernels);
    set.kernels = std::move(measured.rows);
    remarks.insert(remarks.end(), measured.left_out.begin(), measured.left_out.end());
  }
  watchdog.step("the end");
  meeting.barrier();
  watchdog.stop();
  choices.name_choices(set.rows);
  // No process leaves before all are done.
  meeting.barrier();
  return set;
}

std::string verified_text(const VerifiedPlans& verified) {
  std::string text =
      std::to_string(verified.plans) +
      " plans were compared with the fake process group: " + std::to_string(verified.bit_equal) +
      " equal bit for bit, " + std::to_string(verified.within_bound) +
      " within the bound of rounding, " + std::to_string(verified.failed) + " failed\n";
  if (!verified.first_failure.empty()) {
    text += "  the first failure: " + verified.first_failure + "\n";
  }
  return text;
}

void print_set(const MeasureArguments& arguments, Session& session, const MeasurementSet& set,
               const std::vector<std::string>& remarks) {
  if (!session.quiet) {
    for (const std::string& remark : remarks) std::cerr << "note: " << printable(remark) << "\n";
  }
  if (!arguments.out.empty()) write_file(arguments.out, measurement_text(set));
  if (session.json()) {
    session.print(measurement_text(set));
  } else {
    if (!set.rows.empty()) session.print(nccl_tests_table(set));
    if (!set.kernels.empty()) session.print(kernel_table(set, session.style()));
    if (set.verified_plans) session.print(verified_text(*set.verified_plans));
  }
  if (set.verified_plans && set.verified_plans->failed > 0) session.exit_code = kGateSaidNo;
}

// The number of ranks to start if no launcher has started any.
std::int64_t ranks_wanted(const MeasureArguments& arguments) {
  if (arguments.ranks > 0) return arguments.ranks;
  return arguments.on_cpu() || arguments.one_gpu ? 2 : std::max<std::int64_t>(visible_gpus(), 1);
}

void run_measure(const MeasureArguments& given, Session& session) {
  end_with_parent();
  MeasureArguments arguments = given;
  if (arguments.collectives.empty() && arguments.kernels.empty() && arguments.verify_plans == 0) {
    arguments.collectives = {"all_reduce"};
  }
  (void)request_of(arguments);
  const std::optional<LaunchPlace> place =
      find_place([](const char* name) { return read_env(name); });
  if (place && arguments.ranks > 0 && arguments.ranks != place->world) {
    throw InputError("--ranks: found " + std::to_string(arguments.ranks) + ", but the launcher (" +
                     place->launcher + ") started " + std::to_string(place->world) +
                     " processes; valid: that number, or no --ranks");
  }
  if (arguments.one_process && place && place->world > 1) {
    throw InputError("--one-process: the launcher (" + place->launcher + ") started " +
                     std::to_string(place->world) + " processes; valid: one process");
  }
  if (!arguments.nccl_log.empty() && !read_env("NCCL_DEBUG").empty()) {
    throw InputError("--nccl-log " + arguments.nccl_log + ": NCCL_DEBUG is already set to " +
                     read_env("NCCL_DEBUG") + "; valid: NCCL_DEBUG not set");
  }
  if (!arguments.on_cpu()) {
    if (const std::string reason = nccl_absence(); !reason.empty()) {
      throw EnvironmentError("measure: " + reason);
    }
    if (arguments.one_process && arguments.one_gpu && nccl_runtime_version() < kMultiRankVersion) {
      throw EnvironmentError("measure: --one-gpu in --one-process needs NCCL 2.30 or newer");
    }
  }
  const std::int64_t ranks = place ? place->world : ranks_wanted(arguments);
  if (!place && ranks > 1 && !arguments.one_process) {
    session.exit_code = run_rank_processes({.ranks = ranks,
                                            .arguments = session.command_line,
                                            .limit_s = arguments.time_limit_s,
                                            .port = arguments.port});
    return;
  }
  std::vector<std::string> remarks;
  const MeasurementSet set = measure(arguments, session, place, ranks, remarks);
  if (place && place->rank > 0) {
    if (set.verified_plans && set.verified_plans->failed > 0) session.exit_code = kGateSaidNo;
    return;
  }
  print_set(arguments, session, set, remarks);
}

void add_run_options(const Command& command, MeasureArguments& arguments) {
  command.option("--ranks", arguments.ranks, "processes to start; default: one per GPU")
      .check(integer_from(1, kMostMeasuredRanks));
  command.flag("--one-gpu", arguments.one_gpu,
               "run all ranks on GPU 0: the results are right, but the times mean nothing");
  command.flag("--one-process", arguments.one_process,
               "run all ranks in one process, each with a GPU of its own");
  command
      .option("--time-limit", arguments.time_limit_s, "seconds after which every process is ended")
      .check(number_from(0.1, 1e6))
      .show_default();
  command
      .option("--stall-limit", arguments.stall_limit_s,
              "seconds without progress that count as a hang")
      .check(number_from(0.1, 1e6))
      .show_default();
  command
      .option("--port", arguments.port,
              "port where the processes meet; default: any free one. Under a launcher, MASTER_ADDR "
              "and MASTER_PORT decide")
      .check(integer_from(1, 65535));
  command
      .option("--backend", arguments.backend,
              "nccl, or cpu: processes that pass bytes on a CPU, to try the command without GPUs; "
              "the measurement set says so")
      .check(one_of({"nccl", "cpu"}))
      .show_default();
}

}  // namespace

void add_measure_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<MeasureArguments>();
  const Command command = root.subcommand(
      "measure",
      "time NCCL's collectives and kernels on this host's GPUs, and verify plans on them\n"
      "  shardlab measure --collective all_reduce,all_gather --max-bytes 1GiB --out run.json");
  command
      .option("--collective", arguments->collectives,
              "collectives, comma-separated; default: all_reduce, unless kernels or plans are "
              "asked for")
      .comma_separated()
      .check(one_of(words_of(kMeasuredCollectives)));
  command.option("--min-bytes", arguments->min_bytes, "smallest size of the full array")
      .show_default();
  command.option("--max-bytes", arguments->max_bytes, "largest size of the full array")
      .show_default();
  command.option("--step-factor", arguments->step_factor, "factor from one size to the next")
      .check(number_from(1.01, 1e6))
      .show_default();
  command.option("--dtype", arguments->dtypes, "dtypes, comma-separated")
      .comma_separated()
      .check(one_of<DType>())
      .show_default();
  command.option("--iterations", arguments->iterations, "timed calls, each timed by itself")
      .check(integer_from(1, 1000000))
      .show_default();
  command.option("--warmup", arguments->warmup, "calls before the timed ones")
      .check(integer_from(0, 1000000))
      .show_default();
  command
      .option("--kernels", arguments->kernels,
              "kernels, comma-separated: " + std::string(kLaunchedKernels))
      .comma_separated()
      .check(one_of(words_of(kLaunchedKernels)));
  command.option("--kernel-bytes", arguments->kernel_bytes, "most bytes that one kernel moves")
      .show_default();
  command
      .option("--verify-plans", arguments->verify_plans,
              "random plans to run and compare with the fake process group, bit for bit")
      .check(integer_from(1, 1000000));
  command.option("--stack", arguments->stack, "the stack whose plans are verified").show_default();
  add_topology_option(command, session);
  add_run_options(command, *arguments);
  command.option("--topology-xml", arguments->topology_xml,
                 "where NCCL writes its topology (describe topology reads it)");
  command.option("--nccl-log", arguments->nccl_log,
                 "where NCCL's log goes, with its table (validate --nccl-table reads it)");
  command.option("--id", arguments->id, "name of the record; default: that of --out");
  command.option("--out", arguments->out, "where the measurement set goes");
  add_common_options(command, session, {.seed = true, .sets = true, .digits = true});
  command.runs([arguments, &session] { run_measure(*arguments, session); });
}

}  // namespace shardlab
