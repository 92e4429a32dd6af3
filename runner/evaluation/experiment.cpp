#include "runner/evaluation/experiment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "costmodel/base/json_reader.h"
#include "runner/base/version.h"
#include "runner/config/configs.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

// Reads every element of a list, which must not be empty. If `read` throws for an element, the
// error names that element's place in the list.
template <class Read>
void read_each(ObjectReader& reader, std::string_view key, Read&& read) {
  const nlohmann::json& list = reader.array(key);
  if (list.empty())
    reader.place(key).fail("found an empty array; valid: an array of at least one element");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace at = reader.place(key).at(i);
    try {
      read(list[i], at);
    } catch (const InputError& error) {
      at.fail(error.what());
    }
  }
}

template <class Named>
void expect_new(const std::vector<Named>& before, const std::string& name, const JsonPlace& at) {
  const auto is_same = [&](const Named& other) {
    if constexpr (requires { other.name(); }) {
      return other.name() == name;
    } else {
      return other.name == name;
    }
  };
  if (std::ranges::any_of(before, is_same)) {
    at.fail("found \"" + name + "\" a second time; valid: each name only once");
  }
}

std::uint64_t hash_of(std::uint64_t hash, std::string_view text) {
  for (const char c : text) {  // FNV-1a
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return (hash ^ 0xffU) * 0x100000001b3U;  // so that "ab", "c" and "a", "bc" get different hashes
}

// A topology that --set changed, under a name that says so. Its GPU stays what its name said.
Topology labelled(const Topology& topology) {
  nlohmann::json json = topology.to_json();
  json["name"] = topology.name() + "+set";
  json["device"]["gpu"] = topology.gpu();
  return Topology::from_json(json, {topology.name(), ""});
}

}  // namespace

Experiment Experiment::read(const ConfigStore& store, const std::string& name) {
  const fs::path path = store.find(ConfigKind::kExperiment, name);
  const nlohmann::json json = store.experiment_json(path);
  const fs::path folder = path.parent_path();
  ObjectReader reader(json, {path.string(), ""});
  reader.expect_schema("shardlab/experiment/1");
  Experiment experiment;
  experiment.name = reader.text_or("name", path.stem().string());
  static_cast<void>(reader.text_or("title", ""));
  if (reader.find("seed") != nullptr) {
    experiment.seed = static_cast<std::uint64_t>(reader.integer("seed", 0, std::int64_t{1} << 53));
  }
  const auto path_of = [&](ConfigKind kind, const nlohmann::json& value, const JsonPlace& at) {
    return store.find(kind, json_text(value, at), folder).string();
  };
  read_each(reader, "topologies", [&](const nlohmann::json& value, const JsonPlace& at) {
    Topology topology = store.topology(path_of(ConfigKind::kTopology, value, at));
    if (store.changes_topologies()) topology = labelled(topology);
    expect_new(experiment.topologies, topology.name(), at);
    experiment.topologies.push_back(std::move(topology));
  });
  read_each(reader, "suites", [&](const nlohmann::json& value, const JsonPlace& at) {
    Suite suite = store.suite(path_of(ConfigKind::kSuite, value, at), experiment.seed);
    expect_new(experiment.suites, suite.name, at);
    experiment.suites.push_back(std::move(suite));
  });
  read_each(reader, "stacks", [&](const nlohmann::json& value, const JsonPlace& at) {
    Stack stack = value.is_object() ? store.stack(value, path, at)
                                    : store.stack(path_of(ConfigKind::kStack, value, at));
    if (store.changes_stacks()) stack.name += "+set";
    expect_new(experiment.stacks, stack.name, at);
    experiment.stacks.push_back(std::move(stack));
  });
  const std::string reference = reader.text_or("reference", "alpha-beta");
  try {
    const ConfigStore written = store.with_stacks_as_written();
    experiment.reference =
        written.stack(written.find(ConfigKind::kStack, reference, folder).string());
  } catch (const InputError& error) {
    reader.place("reference").fail(error.what());
  }
  reader.finish();
  return experiment;
}

std::size_t Experiment::questions() const {
  std::size_t count = 0;
  for (const Suite& suite : suites) count += suite.questions.size();
  return count * topologies.size();
}

std::string Experiment::digest() const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  hash = hash_of(hash, version());
  hash = hash_of(hash, git_commit());
  for (const Topology& topology : topologies) hash = hash_of(hash, topology.to_json().dump());
  for (const Stack& stack : stacks) hash = hash_of(hash, stack.to_json().dump());
  hash = hash_of(hash, reference.to_json().dump());
  hash = hash_of(hash, seed ? std::to_string(*seed) : "");
  for (const Suite& suite : suites) {
    hash = hash_of(hash, suite.name);
    for (const Question& question : suite.questions) {
      hash = hash_of(hash, question.id);
      hash = hash_of(hash, question.op());
      hash = hash_of(hash, question.mesh.text());
      hash = hash_of(hash, std::to_string(question.count));
      for (const std::string& input : question.inputs()) hash = hash_of(hash, input);
    }
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(hash >> shift) & 0xfU];
  return text;
}

}  // namespace shardlab
