#include "costmodel/measurements/topology_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/nccl_tuning.h"

namespace shardlab {
namespace {

constexpr std::size_t kMaxDepth = 64;

class XmlReader {
 public:
  XmlReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  XmlElement document() {
    skip_between();
    if (at_end())
      fail("found the end of the file; valid: an element such as <system version=\"1\">");
    std::vector<XmlElement> open;  // from the root to the element that is being read
    while (true) {
      const bool closes = open_or_close(open);
      if (closes && open.size() == 1) break;
      if (closes) {
        XmlElement done = std::move(open.back());
        open.pop_back();
        open.back().children.push_back(std::move(done));
      }
      skip_between();
      if (at_end()) fail("found the end of the file inside <" + open.back().name + ">");
    }
    skip_between();
    if (!at_end()) fail("found more text after </" + open.front().name + ">; valid: one element");
    return std::move(open.front());
  }

 private:
  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[position_]; }
  [[nodiscard]] bool next_is(std::string_view token) const {
    return text_.substr(position_).starts_with(token);
  }
  void advance(std::size_t count) {
    for (; count > 0 && !at_end(); --count) {
      if (text_[position_++] == '\n') ++line_;
    }
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(file_, std::to_string(line_), message);
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
  void skip_blanks() {
    while (!at_end() && is_blank(peek())) advance(1);
  }
  void skip_past(std::string_view end, const std::string& what) {
    const std::size_t found = text_.find(end, position_);
    if (found == std::string_view::npos) fail("found " + what + " without an end");
    advance(found + end.size() - position_);
  }
  // Skips text, comments and the prolog.
  void skip_between() {
    while (!at_end()) {
      if (next_is("<!--")) {
        skip_past("-->", "a comment");
      } else if (next_is("<?")) {
        skip_past("?>", "a prolog");
      } else if (peek() == '<') {
        return;
      } else {
        advance(1);
      }
    }
  }

  std::string name() {
    const std::size_t start = position_;
    const auto part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == ':' || c == '.';
    };
    while (!at_end() && part(peek())) advance(1);
    if (position_ == start) fail("found " + shown() + "; valid: a name");
    return std::string(text_.substr(start, position_ - start));
  }
  [[nodiscard]] std::string shown() const {
    if (at_end()) return "the end of the file";
    const char c = peek();
    return c > ' ' && c < 127 ? "\"" + std::string(1, c) + "\""
                              : "a byte that is not printable ASCII";
  }

  std::string value() {
    const char quote = peek();
    if (quote != '"' && quote != '\'') fail("found " + shown() + "; valid: a value in quotes");
    advance(1);
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) fail("found a value without its closing quote");
    const std::string_view raw = text_.substr(position_, end - position_);
    if (raw.find('<') != std::string_view::npos) fail("found \"<\" in a value");
    advance(raw.size() + 1);
    return decoded(raw);
  }
  static std::string decoded(std::string_view raw) {
    constexpr std::pair<std::string_view, char> kEntities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    std::string out;
    for (std::size_t i = 0; i < raw.size();) {
      bool found = false;
      for (const auto& [entity, character] : kEntities) {
        if (!raw.substr(i).starts_with(entity)) continue;
        out += character;
        i += entity.size();
        found = true;
        break;
      }
      if (!found) out += raw[i++];
    }
    return out;
  }

  // Reads one tag. True when the last open element is complete.
  bool open_or_close(std::vector<XmlElement>& open) {
    advance(1);  // skips "<"
    if (peek() == '/') {
      advance(1);
      const std::string closed = name();
      if (open.empty() || closed != open.back().name) {
        fail("found </" + closed +
             ">; valid: " + (open.empty() ? "an element" : "</" + open.back().name + ">"));
      }
      skip_blanks();
      if (peek() != '>') fail("found " + shown() + "; valid: \">\"");
      advance(1);
      return true;
    }
    if (open.size() >= kMaxDepth) {
      fail("found more than " + std::to_string(kMaxDepth) + " elements inside each other");
    }
    XmlElement element;
    element.line = line_;
    element.name = name();
    while (true) {
      skip_blanks();
      if (next_is("/>")) {
        advance(2);
        open.push_back(std::move(element));
        return true;
      }
      if (peek() == '>') {
        advance(1);
        open.push_back(std::move(element));
        return false;
      }
      std::string key = name();
      skip_blanks();
      if (peek() != '=') fail("found " + shown() + " after \"" + key + "\"; valid: \"=\"");
      advance(1);
      skip_blanks();
      element.attributes.emplace_back(std::move(key), value());
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t position_ = 0;
  int line_ = 1;
};

// -- NCCL's dialect

// The GPUs whose figures a shipped topology has, by the device number of their PCI function. Where
// `is_own` is false, the topology is that of the most similar GPU. Source of the numbers: the PCI
// ID Repository (pci.ids), vendors 10de and 1002, of 2026-08-22.
struct PciGpu {
  std::string_view device;
  std::string_view gpu;
  std::string_view topology;
  bool is_own = true;
};
constexpr std::array<PciGpu, 17> kNvidiaGpus = {{{"0x20b0", "a100-40", "a100-40"},
                                                 {"0x20b1", "a100-40-pcie", "a100-40", false},
                                                 {"0x20f1", "a100-40-pcie", "a100-40", false},
                                                 {"0x20b2", "a100", "a100"},
                                                 {"0x20b5", "a100-pcie", "a100", false},
                                                 {"0x2330", "h100", "h100"},
                                                 {"0x2321", "h100-nvl", "h100", false},
                                                 {"0x2331", "h100-pcie", "h100", false},
                                                 {"0x2335", "h200", "h200"},
                                                 {"0x233b", "h200-nvl", "h200", false},
                                                 {"0x26b9", "l40s", "", false},
                                                 {"0x27b8", "l4", "", false},
                                                 {"0x2901", "b200", "b200"},
                                                 {"0x2941", "gb200", "gb200"},
                                                 {"0x3182", "b300", "b300"},
                                                 {"0x31c2", "gb300", "gb300"},
                                                 {"0x31c3", "gb300", "gb300"}}};
constexpr std::array<PciGpu, 16> kAmdGpus = {{{"0x738c", "mi100", "mi300x", false},
                                              {"0x738e", "mi100", "mi300x", false},
                                              {"0x7408", "mi250x", "mi300x", false},
                                              {"0x740c", "mi250x", "mi300x", false},
                                              {"0x740f", "mi210", "mi300x", false},
                                              {"0x74a0", "mi300a", "mi300x", false},
                                              {"0x74a1", "mi300x", "mi300x"},
                                              {"0x74a2", "mi308x", "mi300x", false},
                                              {"0x74a5", "mi325x", "mi300x", false},
                                              {"0x74a9", "mi300x-hf", "mi300x", false},
                                              {"0x74b5", "mi300x", "mi300x"},
                                              {"0x74b9", "mi325x", "mi300x", false},
                                              {"0x74bd", "mi300x-hf", "mi300x", false},
                                              {"0x75a0", "mi350x", "mi355x", false},
                                              {"0x75a3", "mi355x", "mi355x"},
                                              {"0x75a8", "mi350p", "mi355x", false}}};

// AMD's architectures; the first one is taken whose name that of the GPU begins with. The links of
// MI300X and MI355X are those of their architectures, as AMD's data sheets have them. Source of the
// other rates: RCCL's src/graph/topo.h (MI200_XGMI_WIDTH, GFX94X_XGMI_WIDTH and their like).
struct AmdArchitecture {
  std::string_view name;
  std::string_view topology;  // the shipped topology of the most similar GPU
  bool has_its_links;         // whether a link is one of that topology
  double rccl_gbps;           // otherwise: GB/s of one link in one direction
};
constexpr std::array<AmdArchitecture, 4> kAmdArchitectures = {{{"gfx95", "mi355x", true, 48.0},
                                                               {"gfx94", "mi300x", true, 48.0},
                                                               {"gfx90a", "mi300x", false, 36.0},
                                                               {"", "mi300x", false, 24.0}}};

struct Gpu {
  std::int64_t capability = 0;  // 0 of a GPU of AMD, which has none
  std::string amd;              // the architecture of a GPU of AMD: "gfx942"; "" of others
  double device = 0.0;          // CUDA's number of the device on its host
  std::string pci_device;       // "0x2330"; "" if the XML does not say
  std::string bus;              // where its own links end
  double shared_links = 0;      // links to a switch, or to an end that the XML does not name
  bool to_switch = false;
  std::map<std::string, double> links_to;  // links by the bus of the device at their other end
  double pcie_gbps = 0.0;
  std::string host;
  std::size_t cpu = 0;
};

// The network interfaces that share a PCIe slot.
struct Slot {
  double gbps = 0.0;  // 0 if the XML does not say
  std::vector<double> interfaces_mbps;
};

class NcclXml {
 public:
  NcclXml(std::string_view text, const std::string& file) : file_(file) {
    const XmlElement root = parse_xml(text, file);
    if (root.name != "system") {
      fail(root, "found <" + root.name + ">; valid: <system>, as NCCL_TOPO_DUMP_FILE writes it");
    }
    for (const XmlElement& cpu : root.children) {
      if (cpu.name != "cpu") continue;
      const std::string* hash = cpu.attribute("host_hash");
      const double gbps = cpu_link_gbps(cpu);
      socket_gbps_ = cpus_ == 0 ? gbps : std::min(socket_gbps_, gbps);
      walk(cpu, hash == nullptr ? "" : *hash, {});
      ++cpus_;
    }
    if (gpus_.empty()) {
      fail(root,
           "found no <gpu> inside a <cpu>; valid: at least one, as in what NCCL writes to "
           "NCCL_TOPO_DUMP_FILE; a file for NCCL_TOPO_FILE may leave out the GPUs, which NCCL "
           "finds");
    }
    std::ranges::stable_sort(gpus_, [](const Gpu& a, const Gpu& b) {
      return std::tie(a.host, a.device) < std::tie(b.host, b.device);
    });
    for (const Gpu& gpu : gpus_) ++by_host_[gpu.host];
    for (const auto& [host, count] : by_host_) {
      if (count != by_host_.begin()->second) {
        fail(root, "found hosts of " + std::to_string(by_host_.begin()->second) + " and of " +
                       std::to_string(count) +
                       " GPUs; valid: the same number of GPUs on each host");
      }
    }
  }

  [[nodiscard]] NcclTopology topology(const std::string& name,
                                      std::span<const Topology> known) const {
    const Gpu& gpu = *std::ranges::min_element(gpus_, {}, &Gpu::capability);
    const PciGpu* named = named_gpu(gpu);
    const Topology* own = named == nullptr ? nullptr : find_topology(known, named->topology);
    const Topology& nearest = own == nullptr ? nearest_of(known, gpu) : *own;
    const bool is_own = own != nullptr && named->is_own;
    const bool is_amd = !gpu.amd.empty();
    const std::int64_t capability =
        is_amd ? nearest.device().compute_capability.value_or(kDefaultComputeCapability)
               : gpu.capability;
    const Fabric fabric = is_amd ? fabric_of_amd(gpu, known) : fabric_of_nvidia(capability);
    std::vector<std::string> notes;
    if (!is_own) notes.push_back(note_on_figures(gpu, named, nearest));
    const auto hosts = static_cast<std::int64_t>(by_host_.size());
    const auto devices = static_cast<std::int64_t>(gpus_.size()) / hosts;

    nlohmann::json topology_json = {{"schema", "shardlab/topology/1"}, {"name", name}};
    topology_json["source"] = (is_amd ? "RCCL's topology XML " : "NCCL's topology XML ") + file_ +
                              "; memory, peak rates and launch of the topology " + nearest.name() +
                              (is_own ? "" : ", whose GPU is the most similar one") +
                              (has_links() ? fabric.source : "") +
                              "; latencies: NCCL's tuning constants (ring, LL)" +
                              (best_net_mbps_ > 0 ? "" : "; network assumed: the XML has none");
    topology_json["devices_per_host"] = devices;
    if (hosts > 1) topology_json["domain_devices"] = static_cast<std::int64_t>(gpus_.size());
    if (nets_ > 0) topology_json["nics_per_host"] = std::max<std::int64_t>(1, nets_ / hosts);
    topology_json["links"] = links(capability, fabric, devices, hosts, notes);
    topology_json["device"] = nearest.to_json()["device"];
    topology_json["device"]["compute_capability"] = capability;
    if (named != nullptr) {
      topology_json["device"]["gpu"] = named->gpu;
    } else {
      topology_json["device"].erase("gpu");
    }
    return {Topology::from_json(topology_json, {file_, ""}), std::move(notes)};
  }

 private:
  [[noreturn]] void fail(const XmlElement& at, const std::string& message) const {
    throw ConfigError(file_, std::to_string(at.line), message);
  }

  [[nodiscard]] double number(const XmlElement& element, const char* key, double min,
                              double max) const {
    const std::string* text = element.attribute(key);
    if (text == nullptr) {
      fail(element, "found <" + element.name + "> without the attribute \"" + key + "\"");
    }
    double value = 0.0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || !(value >= min) ||
        !(value <= max)) {
      fail(element, "found <" + element.name + " " + key + "=\"" + text->substr(0, 40) +
                        "\">; valid: a number from " + format_double(min) + " to " +
                        format_double(max));
    }
    return value;
  }

  // The GB/s of a PCIe device in one direction: transfers per second times width, times the share
  // of the line code that carries data (8 of 10 bits up to 5 GT/s, 128 of 130 above). 0 if the XML
  // does not say.
  static double pcie_gbps(const XmlElement& pci) {
    const std::string* speed = pci.attribute("link_speed");
    const std::string* width = pci.attribute("link_width");
    if (speed == nullptr || width == nullptr) return 0.0;
    double transfers = 0.0;
    double lanes = 0.0;
    std::from_chars(speed->data(), speed->data() + speed->size(), transfers);
    std::from_chars(width->data(), width->data() + width->size(), lanes);
    if (!(transfers > 0 && transfers <= 1e4 && lanes > 0 && lanes <= 1e3)) return 0.0;
    return transfers * lanes / 8 * (transfers <= 5.0 ? 0.8 : 128.0 / 130.0);
  }

  // Where an element is plugged in.
  struct Seat {
    double path_gbps = 0.0;           // the slowest PCIe link up to the CPU; 0 if none is known
    const XmlElement* pci = nullptr;  // the PCI function that it is inside of; null if none
    std::size_t slot = 0;             // in slots_, if `pci` is not null
  };

  void walk(const XmlElement& element, const std::string& host, Seat seat) {
    if (element.name == "pci") {
      const double own = pcie_gbps(element);
      if (own > 0) seat.path_gbps = seat.path_gbps > 0 ? std::min(seat.path_gbps, own) : own;
      seat.pci = &element;
      seat.slot = slots_.size();
      slots_.push_back({own, {}});
    }
    if (element.name == "gpu") add_gpu(element, host, seat);
    if (element.name == "net" && !is_listed_again(element, host, seat)) add_net(element, seat);
    for (const XmlElement& child : element.children) walk(child, host, seat);
  }

  static std::string lower_text(const std::string* text) {
    std::string out = text == nullptr ? "" : *text;
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return out;
  }

  // The architecture that RCCL's attribute "gcn" names: "gfx942:sramecc+" is gfx942, and old files
  // have a number, of which 910 stands for gfx90a.
  static std::string amd_architecture(std::string_view gcn) {
    if (gcn.empty() || gcn.starts_with("gfx")) return std::string(gcn.substr(0, gcn.find(':')));
    return gcn == "910" ? "gfx90a" : "gfx" + std::string(gcn);
  }

  void add_gpu(const XmlElement& element, const std::string& host, const Seat& seat) {
    Gpu gpu;
    // RCCL, which alone writes the architecture, gives the number of compute units as "sm".
    gpu.amd = amd_architecture(lower_text(element.attribute("gcn")));
    if (gpu.amd.empty()) {
      gpu.capability = static_cast<std::int64_t>(number(element, "sm", 10, 10000));
    }
    gpu.device = element.attribute("dev") == nullptr ? static_cast<double>(gpus_.size())
                                                     : number(element, "dev", -1e9, 1e9);
    gpu.pcie_gbps = seat.path_gbps;
    if (seat.pci != nullptr) {
      gpu.pci_device = lower_text(seat.pci->attribute("device"));
      gpu.bus = lower_text(seat.pci->attribute("busid"));
    }
    gpu.host = host;
    gpu.cpu = cpus_;
    for (const XmlElement& link : element.children) {
      if (link.name != (gpu.amd.empty() ? "nvlink" : "xgmi")) continue;
      const double count = number(link, "count", 0, 1000);
      const std::string end = lower_text(link.attribute("target"));
      const bool to_switch = lower_text(link.attribute("tclass")).starts_with("0x0680");
      gpu.to_switch = gpu.to_switch || to_switch;
      if (to_switch || end.empty()) {
        gpu.shared_links += count;
      } else {
        gpu.links_to[end] += count;
      }
    }
    gpus_.push_back(std::move(gpu));
  }

  // Whether an interface that is no PCI device stands at another CPU of its host as well. NCCL
  // tells that by its name.
  bool is_listed_again(const XmlElement& element, const std::string& host, const Seat& seat) {
    const std::string* name = element.attribute("name");
    return seat.pci == nullptr && name != nullptr && !virtual_nets_.insert({host, *name}).second;
  }

  // Where interfaces differ in speed, only the fastest ones are assumed to carry collectives.
  void add_net(const XmlElement& element, const Seat& seat) {
    const double mbps = number(element, "speed", -1e9, 1e9);
    if (mbps <= 0 || mbps < best_net_mbps_) return;
    if (mbps > best_net_mbps_) {
      nets_ = 0;
      for (Slot& slot : slots_) slot.interfaces_mbps.clear();
    }
    best_net_mbps_ = mbps;
    ++nets_;
    if (seat.pci == nullptr) slots_.push_back({});
    slots_[seat.pci == nullptr ? slots_.size() - 1 : seat.slot].interfaces_mbps.push_back(mbps);
  }

  // The GB/s of all interfaces, in one direction: those of one slot share its PCIe link.
  [[nodiscard]] double network_gbps() const {
    double sum = 0.0;
    for (const Slot& slot : slots_) {
      double gbps = 0.0;
      for (const double mbps : slot.interfaces_mbps) gbps += mbps / 8000.0;
      sum += slot.gbps > 0 ? std::min(gbps, slot.gbps) : gbps;
    }
    return sum;
  }

  // The entry of a GPU's PCI device; null if it is not known.
  static const PciGpu* named_gpu(const Gpu& gpu) {
    const std::span<const PciGpu> gpus =
        gpu.amd.empty() ? std::span<const PciGpu>(kNvidiaGpus) : std::span<const PciGpu>(kAmdGpus);
    const auto found = std::ranges::find(gpus, gpu.pci_device, &PciGpu::device);
    return found == gpus.end() ? nullptr : &*found;
  }

  static const Topology* find_topology(std::span<const Topology> known, std::string_view name) {
    const auto found = std::ranges::find(known, name, &Topology::name);
    return found == known.end() ? nullptr : &*found;
  }

  [[nodiscard]] std::string note_on_figures(const Gpu& gpu, const PciGpu* named,
                                            const Topology& nearest) const {
    std::string what = "does not say which GPU it has";
    if (named != nullptr) {
      what = "has the GPU " + std::string(named->gpu) + ", of which no topology is shipped";
    } else if (!gpu.pci_device.empty()) {
      what = "has a GPU that is not known, of the PCI device " + gpu.pci_device.substr(0, 40);
    } else if (!gpu.amd.empty()) {
      what = "has a GPU of the architecture " + gpu.amd.substr(0, 40) + ", but does not say which";
    }
    return file_ + " " + what + ": memory, peak rates and launch are those of " + nearest.name() +
           ", which is the most similar; set those of your GPU with --set device.memory_gib=..., "
           "device.memory_bandwidth_gb_per_s, device.peak_tflops.bf16 and its other dtypes, and "
           "device.multiprocessors" +
           (named == nullptr ? ", and name it with device.gpu" : "");
  }

  // The links of a GPU that end at a switch or at a GPU of its host. Others, such as those to a
  // CPU, join no GPUs.
  [[nodiscard]] double links_of(const Gpu& gpu) const {
    double links = gpu.shared_links;
    for (const Gpu& other : gpus_) links += links_between(gpu, other);
    return links;
  }
  static double links_between(const Gpu& gpu, const Gpu& other) {
    if (&gpu == &other || gpu.host != other.host) return 0.0;
    const auto found = gpu.links_to.find(other.bus);
    return found == gpu.links_to.end() ? 0.0 : found->second;
  }

  // For each GPU, the first one that links join it to, over any others.
  [[nodiscard]] std::vector<std::size_t> joined_parts() const {
    std::vector<std::size_t> part(gpus_.size());
    std::iota(part.begin(), part.end(), std::size_t{0});
    const auto join_parts = [&](std::size_t a, std::size_t b) {
      const auto [low, high] = std::minmax(part[a], part[b]);
      std::ranges::replace(part, std::size_t{high}, std::size_t{low});
    };
    std::optional<std::size_t> shared;
    for (std::size_t a = 0; a < gpus_.size(); ++a) {
      if (gpus_[a].shared_links > 0) join_parts(shared.value_or(a), a);
      if (gpus_[a].shared_links > 0 && !shared) shared = a;
      for (std::size_t b = 0; b < gpus_.size(); ++b) {
        if (part[a] != part[b] && links_between(gpus_[a], gpus_[b]) > 0) join_parts(a, b);
      }
    }
    return part;
  }

  // How many GPUs in a row links join: all of a host or of the domain, blocks of them, or 1 if
  // they join none or other parts than such blocks.
  [[nodiscard]] std::int64_t joined_devices() const {
    const std::vector<std::size_t> part = joined_parts();
    const auto first = static_cast<std::size_t>(std::ranges::count(part, part.front()));
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] != i - i % first) return 1;
    }
    return static_cast<std::int64_t>(first);
  }

  // Whether every GPU has as many links of its own to every other one of its block of so many GPUs,
  // without a switch.
  [[nodiscard]] bool are_pairwise(std::int64_t joined) const {
    const double links = gpus_.size() < 2 ? 0.0 : links_between(gpus_[0], gpus_[1]);
    if (links == 0.0) return false;
    const auto block = static_cast<std::size_t>(joined);
    for (std::size_t a = 0; a < gpus_.size(); ++a) {
      for (std::size_t b = a / block * block; b < (a / block + 1) * block; ++b) {
        if (a != b && links_between(gpus_[a], gpus_[b]) != links) return false;
      }
    }
    return true;
  }

  // The links that join GPUs without PCIe.
  struct Fabric {
    const char* name;      // of the level
    const char* what;      // the links in words
    double link_gbps;      // one link in one direction
    std::string source{};  // where the rate is from; "" for NVIDIA's, which is the data sheets'
  };
  static Fabric fabric_of_nvidia(std::int64_t capability) {
    return {"nvlink", "NVLinks", capability >= 100 ? 50.0 : 25.0};
  }
  static const AmdArchitecture& architecture_of(const Gpu& gpu) {
    return *std::ranges::find_if(kAmdArchitectures, [&](const AmdArchitecture& each) {
      return gpu.amd.starts_with(each.name);
    });
  }
  static Fabric fabric_of_amd(const Gpu& gpu, std::span<const Topology> known) {
    const AmdArchitecture& architecture = architecture_of(gpu);
    const Topology* shipped = find_topology(known, architecture.topology);
    if (!architecture.has_its_links || shipped == nullptr) {
      return {"xgmi", "links of Infinity Fabric", architecture.rccl_gbps,
              "; rate of a link from RCCL's topo.h"};
    }
    return {"xgmi", "links of Infinity Fabric",
            shipped->bandwidth(shipped->host_link(), Collective::kSendRecv, 2).value(),
            "; rate of a link from the topology " + shipped->name()};
  }

  static const Topology& nearest_of(std::span<const Topology> known, const Gpu& gpu) {
    SHARDLAB_CHECK(!known.empty());
    if (!gpu.amd.empty()) {
      const Topology* similar = find_topology(known, architecture_of(gpu).topology);
      return similar == nullptr ? known.front() : *similar;
    }
    const auto distance = [&](const Topology& topology) {
      return std::abs(topology.device().compute_capability.value_or(kDefaultComputeCapability) -
                      gpu.capability);
    };
    return *std::min_element(known.begin(), known.end(), [&](const Topology& a, const Topology& b) {
      return distance(a) < distance(b);
    });
  }

  // The GB/s from a CPU to the next one, as NCCL 2.26 to 2.30 assumes them (topo.cc, topo.h): those
  // of Intel go by the model. A CPU of unknown model is taken for Skylake.
  [[nodiscard]] double cpu_link_gbps(const XmlElement& cpu) const {
    const std::string arch = lower_text(cpu.attribute("arch"));
    if (arch == "arm64") return 6.0;
    if (arch == "ppc64") return 32.0;
    if (lower_text(cpu.attribute("vendor")) == "authenticamd") return 16.0;
    if (cpu.attribute("familyid") == nullptr || cpu.attribute("modelid") == nullptr) return 10.0;
    const double model = number(cpu, "modelid", 0, 1e9);
    if (number(cpu, "familyid", 0, 1e9) != 6 || model < 0x55) return 6.0;  // before Skylake-SP
    if (model < 0x8F) return 10.0;                                         // before Sapphire Rapids
    return model < 0xCF ? 22.0 : 40.0;                                     // before Emerald Rapids
  }

  [[nodiscard]] nlohmann::json links(std::int64_t capability, const Fabric& fabric,
                                     std::int64_t devices, std::int64_t hosts,
                                     std::vector<std::string>& notes) const {
    const NcclConstants constants = nccl_constants(22705, nccl_architecture(capability));
    constexpr auto kRing = static_cast<std::size_t>(NcclAlgorithm::kRing);
    const auto level = [](const char* name, const char* joins, const char* kind, double latency,
                          double gbps) {
      return nlohmann::json{{"name", name},
                            {"joins", joins},
                            {"kind", kind},
                            {"latency_us", latency},
                            {"bandwidth_gb_per_s", gbps}};
    };
    double fewest = links_of(gpus_.front());
    double pcie = 0.0;
    bool to_switch = true;
    for (const Gpu& gpu : gpus_) {
      fewest = std::min(fewest, links_of(gpu));
      to_switch = to_switch && gpu.to_switch;
      if (gpu.pcie_gbps > 0) pcie = pcie > 0 ? std::min(pcie, gpu.pcie_gbps) : gpu.pcie_gbps;
    }
    if (pcie <= 0) pcie = 12.0;  // NCCL's PCI_BW
    nlohmann::json levels = nlohmann::json::array();
    const char* whole = hosts > 1 ? "domain" : "host";
    const std::int64_t joined = joined_devices();
    const double fabric_gbps = fewest * fabric.link_gbps;
    if (joined == static_cast<std::int64_t>(gpus_.size()) && fewest > 0) {
      levels.push_back(level(fabric.name, whole, to_switch ? "nvswitch" : "nvlink",
                             constants.nvlink[kRing][0], fabric_gbps));
      if (are_pairwise(joined)) levels.back()["pairwise"] = true;
    } else {
      if (joined > 1) {
        levels.push_back(
            level(fabric.name, "pcie", "nvlink", constants.nvlink[kRing][0], fabric_gbps));
        levels.back()["devices"] = joined;
        if (are_pairwise(joined)) levels.back()["pairwise"] = true;
      } else if (has_links()) {
        notes.push_back(file_ + ": " + fabric.what +
                        " join some GPUs of a host that are no blocks of "
                        "consecutive devices; they are left out, and all GPUs are joined by PCIe");
      }
      const std::int64_t in_socket = devices_of_each_cpu();
      const bool has_sockets = in_socket > 0 && in_socket < devices;
      if (has_sockets && in_socket > joined && in_socket % joined == 0) {
        levels.push_back(level("pcie", "socket", "pcie", constants.pci[kRing][0], pcie));
        levels.back()["devices"] = in_socket;
      }
      levels.push_back(level(has_sockets ? "sockets" : "pcie", whole, "pcie",
                             constants.pci[kRing][0],
                             has_sockets ? std::min(pcie, socket_gbps_) : pcie));
    }
    const double each = network_gbps() / static_cast<double>(gpus_.size());
    levels.push_back(level("network", "all", "network", constants.network[kRing][0],
                           each > 0 ? std::clamp(each, 1e-6, 1e9) : 12.0));  // NCCL's NET_BW
    return levels;
  }

  [[nodiscard]] bool has_links() const {
    return std::ranges::any_of(gpus_, [&](const Gpu& gpu) { return links_of(gpu) > 0; });
  }

  // The number of GPUs on each CPU that has GPUs; 0 if these numbers differ.
  [[nodiscard]] std::int64_t devices_of_each_cpu() const {
    std::map<std::size_t, std::int64_t> counts;
    for (const Gpu& gpu : gpus_) ++counts[gpu.cpu];
    for (const auto& [cpu, count] : counts) {
      if (count != counts.begin()->second) return 0;
    }
    return counts.begin()->second;
  }

  std::string file_;
  std::vector<Gpu> gpus_;
  std::vector<Slot> slots_;
  std::map<std::string, std::int64_t> by_host_;
  std::size_t cpus_ = 0;
  double socket_gbps_ = 0.0;                                    // from each CPU to the next one
  std::set<std::pair<std::string, std::string>> virtual_nets_;  // those read, by host and name
  double best_net_mbps_ = 0.0;
  std::int64_t nets_ = 0;
};

}  // namespace

const std::string* XmlElement::attribute(std::string_view key) const {
  for (const auto& [name_of, value] : attributes) {
    if (name_of == key) return &value;
  }
  return nullptr;
}

XmlElement parse_xml(std::string_view text, const std::string& file) {
  return XmlReader(text, file).document();
}

NcclTopology topology_of_nccl_xml(std::string_view text, const std::string& file,
                                  std::span<const Topology> known) {
  std::string name = file.substr(file.find_last_of('/') + 1);
  name = name.substr(0, name.find('.'));
  return NcclXml(text, file).topology(name.empty() ? "xml" : name, known);
}

}  // namespace shardlab
