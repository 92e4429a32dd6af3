// Parses a text that stands in a file, so that its mistakes name the place.
//
//   const DeviceMesh mesh = parse_at(place.at("mesh"), [&] { return DeviceMesh::parse(text); });
#pragma once

#include "costmodel/base/error.h"
#include "costmodel/base/json_reader.h"

namespace shardlab {

// Turns a TextError or an InputError into a ConfigError that names the text's place.
template <class Parse>
auto parse_at(const JsonPlace& place, Parse&& parse) -> decltype(parse()) {
  try {
    return parse();
  } catch (const TextError& error) {
    place.fail(error.what());
  } catch (const InputError& error) {
    place.fail(error.what());
  }
}

}  // namespace shardlab
