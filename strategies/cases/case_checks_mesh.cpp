// Checks that need no price: the layout algebra of meshes, the legality and strided encoding of
// layouts, and what each rank holds.
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/cases/case_checks.h"

namespace shardlab::case_checks {
namespace {

constexpr std::int64_t kMaxListedRanks = 4096;
constexpr std::int64_t kMaxListedRows = 1'000'000;

class PricelessCheck : public Check {
 public:
  [[nodiscard]] bool uses_stack() const override { return false; }
};

// -- mesh --------------------------------------------------------------------------------

constexpr std::array<AnswerKey, 9> kMeshAnswers = {{
    {"text"},
    {"size"},
    {"layouts"},
    {"ranks"},
    {"layout"},      // the coalesced layout of the mesh dims in question
    {"groups"},      // the groups of ranks along the mesh dims in question
    {"flattened"},   // the registered flattened mesh that has this layout, or null
    {"registered"},  // the layout of the flattened mesh of the name in question
    {"error", Match::kContains},
}};

// Meshes are flattened and sliced when the check runs, so that a case can expect the errors that
// this raises.
class MeshCheck final : public PricelessCheck {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = source.setup;
    auto check = std::make_unique<MeshCheck>();
    check->text_ = reader.text("mesh");
    if (const nlohmann::json* flatten = reader.find("flatten")) {
      const JsonPlace place = reader.place("flatten");
      for (std::size_t i = 0; i < json_array(*flatten, place).size(); ++i) {
        check->flatten_.push_back(read_flatten((*flatten)[i], place.at(i)));
      }
    }
    if (const nlohmann::json* slice = reader.find("slice")) {
      check->slice_ = read_texts(*slice, reader.place("slice"));
    }
    if (const nlohmann::json* dims = reader.find("dims")) {
      const JsonPlace place = reader.place("dims");
      for (std::size_t i = 0; i < json_array(*dims, place).size(); ++i) {
        check->dims_.push_back(
            static_cast<int>(json_integer((*dims)[i], place.at(i), 0, kMaxMeshDims - 1)));
      }
    }
    check->name_ = reader.text_or("name", "");
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    std::string out = "mesh " + text_;
    for (const Flatten& flatten : flatten_) out += ", flatten " + join(flatten.axes);
    if (!slice_.empty()) out += ", slice " + join(slice_);
    if (!dims_.empty()) {
      out += ", dims";
      for (const int dim : dims_) out += " " + std::to_string(dim);
    }
    return out;
  }

  [[nodiscard]] Observation observe(Bench&, const std::set<std::string>& asked) const override {
    DeviceMesh mesh = DeviceMesh::parse(text_);
    for (const Flatten& flatten : flatten_) mesh = mesh.flatten(flatten.axes, flatten.name);
    if (!slice_.empty()) mesh = mesh.slice(slice_);
    Observation seen;
    nlohmann::json& answers = seen.answers;
    answers["text"] = mesh.text();
    answers["size"] = mesh.size();
    answers["layouts"] = nlohmann::json::array();
    for (int i = 0; i < mesh.ndim(); ++i) answers["layouts"].push_back(mesh.layout(i).text());
    if (asked.contains("ranks") && mesh.size() <= kMaxListedRanks) answers["ranks"] = mesh.ranks();
    if (!name_.empty()) answers["registered"] = mesh.flattened(name_).layout(0).text();
    if (dims_.empty()) return seen;
    MeshLayout layout;
    for (const int dim : dims_) {
      if (dim >= mesh.ndim()) {
        throw InputError("found mesh dim " + std::to_string(dim) + "; valid: 0 to " +
                         std::to_string(mesh.ndim() - 1) + ", the dims of mesh " + mesh.text());
      }
      layout = layout.concatenate(mesh.layout(dim));
    }
    answers["layout"] = layout.coalesce().text();
    if (asked.contains("groups") && mesh.world_size() <= kMaxListedRanks) {
      answers["groups"] = mesh.groups(layout.coalesce());
    }
    const auto flat = mesh.find_flattened(dims_);
    answers["flattened"] = flat ? nlohmann::json(flat->name) : nlohmann::json(nullptr);
    return seen;
  }

 private:
  struct Flatten {
    std::vector<std::string> axes;
    std::string name;
  };

  // Reads ["dp", "tp"] or {"axes": ["dp", "tp"], "name": "all"}.
  static Flatten read_flatten(const nlohmann::json& json, const JsonPlace& place) {
    if (json.is_array()) return {read_texts(json, place), ""};
    ObjectReader reader(json, place);
    Flatten flatten{read_texts(reader.value("axes"), reader.place("axes")), reader.text("name")};
    reader.finish();
    return flatten;
  }

  std::string text_;
  std::vector<Flatten> flatten_;
  std::vector<std::string> slice_;
  std::vector<int> dims_;
  std::string name_;
};

// -- layout ------------------------------------------------------------------------------

constexpr std::array<AnswerKey, 8> kLayoutAnswers = {{
    {"text"},
    {"printed"},  // the layout as plans print it
    {"encoded"},  // the shard order written as strided shards
    {"decoded"},  // the shard order that the strided shards stand for, or null if there is none
    {"shards"},
    {"shardable"},
    {"even"},  // by tensor dim
    {"error", Match::kContains},
}};

class LayoutCheck final : public PricelessCheck {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<LayoutCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->meta_ = source.scene.tensor;
    check->text_ = reader.text("layout");
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "layout " + text_ + " on " + mesh_.text();
  }

  [[nodiscard]] Observation observe(Bench&, const std::set<std::string>& asked) const override {
    const Layout layout =
        meta_ ? parse_layout(text_, mesh_.ndim(), *meta_) : Layout::parse(text_, mesh_.ndim());
    Observation seen;
    seen.answers["text"] = layout.text();
    seen.answers["printed"] = layout.text(true);
    seen.answers["shards"] = num_shards(layout.placements, mesh_, true);
    if (asked.contains("encoded")) {
      seen.answers["encoded"] = encode_order_as_strided(layout, mesh_).text();
    }
    if (asked.contains("decoded")) {
      const auto decoded = decode_strided_as_order(layout, mesh_);
      seen.answers["decoded"] =
          decoded ? nlohmann::json(decoded->text(true)) : nlohmann::json(nullptr);
    }
    if (meta_) {
      seen.answers["shardable"] = is_shardable(meta_->shape, layout.placements, mesh_);
      seen.answers["even"] = nlohmann::json::array();
      for (int d = 0; d < meta_->ndim(); ++d) {
        seen.answers["even"].push_back(
            is_evenly_shardable_on_dim(meta_->shape, layout.placements, mesh_, d));
      }
    }
    return seen;
  }

 private:
  DeviceMesh mesh_;
  std::optional<TensorMeta> meta_;
  std::string text_;
};

// -- local: what each rank holds ---------------------------------------------------------

constexpr std::array<AnswerKey, 4> kLocalAnswers = {{
    {"shapes"},   // by rank: the local shape
    {"extents"},  // by rank: the extent of the asked dim
    {"rows"},     // by rank: global indices along the asked dim
    {"error", Match::kContains},
}};

class LocalCheck final : public PricelessCheck {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<LocalCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->meta_ = tensor_of(source.scene, source.place);
    if (check->mesh_.size() > kMaxListedRanks) {
      source.place.fail("found mesh " + check->mesh_.text() + "; valid: at most " +
                        std::to_string(kMaxListedRanks) + " ranks");
    }
    const std::string layout = reader.text("layout");
    check->layout_ = parse_at(reader.place("layout"), [&] {
      return parse_layout(layout, check->mesh_.ndim(), check->meta_);
    });
    check->dim_ =
        static_cast<int>(reader.integer_or("dim", 0, 0, std::max(check->meta_.ndim() - 1, 0)));
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "local " + meta_.text() + " " + layout_.text() + " on " + mesh_.text();
  }

  [[nodiscard]] Observation observe(Bench&, const std::set<std::string>& asked) const override {
    Observation seen;
    seen.answers = {{"shapes", nlohmann::json::array()},
                    {"extents", nlohmann::json::array()},
                    {"rows", nlohmann::json::array()}};
    for (std::int64_t rank = 0; rank < mesh_.size(); ++rank) {
      const std::vector<std::int64_t> coordinate = mesh_.coordinate(rank);
      const Shape shape = local_shape(meta_.shape, layout_, mesh_, coordinate);
      seen.answers["shapes"].push_back(std::vector<std::int64_t>(shape.begin(), shape.end()));
      if (meta_.ndim() == 0) continue;
      seen.answers["extents"].push_back(shape[to_index(dim_)]);
      if (!asked.contains("rows")) continue;
      if (meta_.shape[to_index(dim_)] > kMaxListedRows) {
        throw InputError("found " + std::to_string(meta_.shape[to_index(dim_)]) +
                         " rows to list; valid: at most " + std::to_string(kMaxListedRows));
      }
      seen.answers["rows"].push_back(local_rows(meta_.shape, dim_, layout_, mesh_, coordinate));
    }
    return seen;
  }

 private:
  DeviceMesh mesh_;
  TensorMeta meta_;
  Layout layout_;
  int dim_ = 0;
};

// -- chunks of an extent -----------------------------------------------------------------

constexpr std::array<AnswerKey, 3> kChunksAnswers = {{{"rows"}, {"sizes"}, {"offsets"}}};

class ChunksCheck final : public PricelessCheck {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = source.setup;
    auto check = std::make_unique<ChunksCheck>();
    check->extent_ = reader.integer("extent", 0, kMaxListedRows);
    check->chunks_ = reader.integer("chunks", 1, kMaxListedRanks);
    check->factor_ = reader.integer_or("factor", 1, 1, kMaxListedRanks);
    const std::string variant = reader.text_or("variant", "chunk-of-chunks");
    const auto known = from_name<StridedVariant>(variant);
    if (!known) {
      reader.place("variant").fail("found \"" + variant +
                                   "\"; valid: " + valid_names<StridedVariant>());
    }
    check->variant_ = *known;
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return std::to_string(chunks_) + " chunks of " + std::to_string(extent_) +
           (factor_ > 1 ? ", split factor " + std::to_string(factor_) : "") +
           (variant_ == StridedVariant::kUnflatten ? ", unflatten" : "");
  }

  [[nodiscard]] Observation observe(Bench&, const std::set<std::string>&) const override {
    Observation seen;
    seen.answers = {{"rows", nlohmann::json::array()},
                    {"sizes", nlohmann::json::array()},
                    {"offsets", nlohmann::json::array()}};
    for (std::int64_t i = 0; i < chunks_; ++i) {
      const auto rows = strided_rows(extent_, factor_, chunks_, i, variant_);
      seen.answers["rows"].push_back(rows);
      seen.answers["sizes"].push_back(rows.size());
      if (factor_ == 1) seen.answers["offsets"].push_back(chunk_of(extent_, chunks_, i).offset);
    }
    return seen;
  }

 private:
  std::int64_t extent_ = 0;
  std::int64_t chunks_ = 1;
  std::int64_t factor_ = 1;
  StridedVariant variant_ = StridedVariant::kChunkOfChunks;
};

}  // namespace

constinit const CheckKind kMeshKind{
    .name = "mesh", .answers = kMeshAnswers, .read = MeshCheck::read};
constinit const CheckKind kLayoutKind{
    .name = "layout", .answers = kLayoutAnswers, .read = LayoutCheck::read};
constinit const CheckKind kLocalKind{
    .name = "local", .answers = kLocalAnswers, .read = LocalCheck::read};
constinit const CheckKind kChunksKind{
    .name = "chunks", .answers = kChunksAnswers, .read = ChunksCheck::read};

}  // namespace shardlab::case_checks
