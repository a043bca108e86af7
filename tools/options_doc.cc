// Writes docs/options.md from the options table; --check FILE compares instead.

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "base/options.h"

namespace {

std::string Page() {
  std::ostringstream out;
  out << "# Options\n\n"
         "Every environment variable that Plait reads. They are read once, at their "
         "first use.\nWhere an older name is honoured too, Plait's own wins. This page "
         "is made from the table in\n`src/base/options.cc` by `ninja -C build/release "
         "docs`.\n\n"
         "| variable | also read | default | meaning |\n|---|---|---|---|\n";
  for (const plait::OptionInfo& info : plait::OptionTable()) {
    const std::string fallback = info.fallback;
    out << "| `" << info.name << "` | "
        << (info.legacy ? "`" + std::string(info.legacy) + "`" : "") << " | "
        << (fallback.empty() ? "" : "`" + fallback + "`") << " | " << info.doc
        << " |\n";
  }
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    std::cout << Page();
    return 0;
  }
  if (argc != 3 || std::string(argv[1]) != "--check") {
    std::cerr << "usage: options_doc [--check FILE]\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str() == Page()) return 0;
  std::cerr << argv[2] << " is not what the options table says; "
            << "run: ninja -C build/release docs\n";
  return 1;
}
