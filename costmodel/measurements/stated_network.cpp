#include "costmodel/measurements/stated_network.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace shardlab {
namespace {

constexpr double kBitsPerByte = 8.0;

struct Fabric {
  std::string_view word;
  double delay;
};
// Longer words come first.
constexpr std::array<Fabric, 8> kFabrics = {{{"EFA", 2.2},
                                             {"TCPXO", 3.0},
                                             {"TCPX", 20.0},
                                             {"TCP", 3.0},
                                             {"Slingshot", 1.2},
                                             {"gIB", 1.5},
                                             {"GCP A3 Ultra", 1.5},
                                             {"GCP A4", 1.5}}};

struct PortRate {
  std::string_view word;
  double gigabits;
};
constexpr std::array<PortRate, 2> kPortRates = {{{"Slingshot-11", 200}, {"ConnectX-8", 400}}};

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The number at the end of the text, which is taken off with the spaces around it.
std::optional<double> take_number(std::string_view& text) {
  text = without_spaces(text);
  std::size_t begin = text.size();
  while (begin > 0 && ((text[begin - 1] >= '0' && text[begin - 1] <= '9') ||
                       (text[begin - 1] == '.' && begin < text.size()))) {
    --begin;
  }
  if (begin == text.size()) return std::nullopt;
  const std::string digits(text.substr(begin));
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  text = without_spaces(text.substr(0, begin));
  return value;
}

constexpr std::string_view kBetweenWords = " ,;:-()";

std::string_view last_word(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(kBetweenWords) + 1);
  const std::size_t space = text.find_last_of(kBetweenWords);
  return space == std::string_view::npos ? text : text.substr(space + 1);
}

std::string_view first_word(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBetweenWords), text.size()));
  return text.substr(0, text.find_first_of(kBetweenWords));
}

// Whether the text says that the switches of the network add up.
bool states_sharp(std::string_view inter) {
  constexpr std::string_view kSharp = "SHARP";
  constexpr std::array<std::string_view, 5> kOtherBefore = {"no", "non", "not", "without",
                                                            "NVLink"};
  constexpr std::array<std::string_view, 5> kDenialAfter = {"off", "disabled", "inactive", "not",
                                                            "unavailable"};
  const auto is_among = [](std::string_view word, std::span<const std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  for (std::size_t at = inter.find(kSharp); at != std::string_view::npos;
       at = inter.find(kSharp, at + kSharp.size())) {
    const std::string_view before = last_word(inter.substr(0, at));
    const std::string_view after = first_word(inter.substr(at + kSharp.size()));
    if (!is_among(before, kOtherBefore) && !is_among(after, kDenialAfter)) return true;
  }
  return false;
}

// What has the rate of a text: one link, unless the text says otherwise.
enum class RateOf : std::uint8_t { kLink, kDevice, kHost };

// Reads what stands behind the number and the unit of a rate: " a GPU", " per node" or "/host".
RateOf rate_of(std::string_view after) {
  constexpr std::array<std::string_view, 4> kPer = {"per ", "a ", "each ", "/"};
  constexpr std::array<std::string_view, 4> kDevices = {"GPU", "gpu", "device", "rank"};
  constexpr std::array<std::string_view, 4> kHosts = {"node", "host", "server", "machine"};
  after.remove_prefix(std::min(after.find_first_not_of(' '), after.size()));
  const auto per = std::find_if(kPer.begin(), kPer.end(),
                                [&](std::string_view word) { return after.starts_with(word); });
  if (per == kPer.end()) return RateOf::kLink;
  const std::string_view what = first_word(after.substr(per->size()));
  const auto is_what = [&](std::string_view word) { return word == what; };
  if (std::any_of(kDevices.begin(), kDevices.end(), is_what)) return RateOf::kDevice;
  if (std::any_of(kHosts.begin(), kHosts.end(), is_what)) return RateOf::kHost;
  return RateOf::kLink;
}

// The number of links that have the rate: "8 x" before it.
std::optional<double> links_before(std::string_view before_rate) {
  if (!before_rate.ends_with('x')) return std::nullopt;
  before_rate.remove_suffix(1);
  return take_number(before_rate);
}

// The number of links of a host: "8 x" before the rate, or "8 NICs/node" anywhere.
std::optional<double> stated_links(std::string_view inter, std::string_view before_rate) {
  if (const auto count = links_before(before_rate)) return count;
  for (const std::string_view word : {"NICs/node", "NIC/node", "active ports/node"}) {
    const std::size_t at = inter.find(word);
    if (at == std::string_view::npos) continue;
    std::string_view before = inter.substr(0, at);
    if (const auto count = take_number(before)) return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<StatedRate> stated_rate(std::string_view text) {
  struct Unit {
    std::string_view word;
    double gigabits;
  };
  constexpr std::array<Unit, 6> kUnits = {{{"Gb/s", 1.0},
                                           {"Gbit/s", 1.0},
                                           {"Gbps", 1.0},
                                           {"Tb/s", 1e3},
                                           {"Tbit/s", 1e3},
                                           {"Tbps", 1e3}}};
  std::size_t at = std::string_view::npos;
  Unit first{};
  for (const Unit& unit : kUnits) {
    if (const std::size_t found = text.find(unit.word); found < at) {
      at = found;
      first = unit;
    }
  }
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view before = text.substr(0, at);
  const auto number = take_number(before);
  if (!number) return std::nullopt;
  return StatedRate{before.size(), at + first.word.size(), *number * first.gigabits};
}

std::vector<double> stated_delays() {
  std::set<double> delays = {StatedNetwork().delay};
  for (const Fabric& fabric : kFabrics) delays.insert(fabric.delay);
  return {delays.begin(), delays.end()};
}

StatedNetwork stated_network(std::string_view inter, std::int64_t devices_per_host) {
  const auto holds = [&](std::string_view word) {
    return inter.find(word) != std::string_view::npos;
  };
  StatedNetwork network;
  network.reduces = states_sharp(inter);
  for (const Fabric& fabric : kFabrics) {
    if (!holds(fabric.word)) continue;
    network.delay = fabric.delay;
    break;
  }
  const std::optional<StatedRate> rate = stated_rate(inter);
  std::optional<double> gigabits;
  std::string_view before;
  auto of = RateOf::kLink;
  if (rate) {
    before = inter.substr(0, rate->begin);
    if (last_word(before) == "below") return network;
    gigabits = rate->gigabits;
    of = rate_of(inter.substr(rate->end));
  } else {
    for (const PortRate& port : kPortRates) {
      if (!gigabits && holds(port.word)) gigabits = port.gigabits;
    }
  }
  if (!gigabits) return network;
  const double port = *gigabits / kBitsPerByte;
  const auto devices = static_cast<double>(std::max<std::int64_t>(1, devices_per_host));
  if (of == RateOf::kDevice) {
    network.bandwidth_of_device = GBps(port * links_before(before).value_or(1.0));
  } else if (const auto links = stated_links(inter, before)) {
    constexpr double kUsualDevices = 8.0;
    network.bandwidth_of_device =
        GBps(port * *links / std::max(devices, std::min(*links, kUsualDevices)));
  } else if (holds("NIC per GPU") || devices_per_host == 1) {
    network.bandwidth_of_device = GBps(port);
  } else if (of == RateOf::kHost) {
    network.bandwidth_of_device = GBps(port / devices);
  }
  return network;
}

}  // namespace shardlab
