#include "ir/copy_engine.h"

namespace asyra {

bool AsksForCopyEngine(const AttrMap& attrs) {
  const AttrValue* transport = attrs.Find("transport");
  return transport != nullptr &&
         std::get<std::string>(*transport) == kCopyEngine;
}

void AskForCopyEngine(bool asks, AttrMap* attrs) {
  attrs->Set("transport", std::string(asks ? kCopyEngine : kLibrary));
}

}  // namespace asyra
