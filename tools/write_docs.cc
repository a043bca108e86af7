// Writes the pages of docs/ that are made from tables: options.md and ops.md.
//
// usage: write_docs [--check] DIR. --check compares instead, and fails where one is
// stale.

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/options.h"
#include "graph/op.h"

namespace {

using plait::OpDef;

std::string Code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

std::string OptionsPage() {
  std::ostringstream out;
  out << "# Options\n\n"
         "Every environment variable that Plait reads. They are read once, at their "
         "first use.\nWhere an older name is honoured too, Plait's own wins. This page "
         "is made from the table in\n`src/base/options.cc` by `ninja -C build/release "
         "docs`.\n\n"
         "| variable | also read | default | meaning |\n|---|---|---|---|\n";
  for (const plait::OptionInfo& info : plait::OptionTable()) {
    out << "| " << Code(info.name) << " | " << Code(info.legacy ? info.legacy : "")
        << " | " << Code(info.fallback) << " | " << info.doc << " |\n";
  }
  return out.str();
}

// name(data, weight, *, axis=-1)
std::string Signature(const OpDef& op) {
  std::string text = op.name + "(", separator;
  if (op.variable_inputs) {
    text += "*" + std::string(op.inputs[0].name);
    separator = ", ";
  } else {
    for (const plait::InputDef& input : op.inputs) {
      text += separator + input.name;
      separator = ", ";
    }
    if (!op.fields.empty() && !op.inputs.empty()) text += ", *";
  }
  for (const plait::Field& field : op.fields) {
    text += separator + field.name;
    if (!field.required) {
      text += "=" + plait::FormatAttr(field.access->Get(op.defaults->get()));
    }
    separator = ", ";
  }
  return text + ")";
}

void WriteOp(const OpDef& op, std::ostream& out) {
  out << "\n## " << op.name << "\n\n"
      << Code(Signature(op)) << "\n\n"
      << op.doc << "\n";
  if (!op.aliases.empty()) {
    out << "Also called";
    const char* separator = " ";
    for (const std::string& alias : op.aliases) {
      out << separator << Code(alias);
      separator = ", ";
    }
    out << ".\n";
  }
  out << "\n";
  for (const plait::InputDef& input : op.inputs) {
    if (*input.doc) out << "- " << Code(input.name) << ": " << input.doc << "\n";
  }
  for (const plait::Field& field : op.fields) {
    out << "- " << Code(field.name) << " (" << field.access->TypeName()
        << "): " << field.doc << "\n";
  }
  const bool gradient = op.gradient || op.zero_gradient;
  out << "- " << (gradient ? "has a gradient" : "has no gradient")
      << (op.is_pointwise() ? "; pointwise: runs fused" : "") << "\n";
}

std::string OpsPage() {
  std::ostringstream out;
  const auto ops = plait::AllOps();
  out << "# Operators\n\n"
         "All "
      << ops.size()
      << " operators, from their definitions in src/ops. Each "
         "is a function of `mx.nd`; parameters are\ngiven by name. This page is made "
         "by "
         "`ninja -C build/release docs`.\n";
  for (const OpDef* op : ops) WriteOp(*op, out);
  return out.str();
}

bool IsFresh(const std::string& path, const std::string& page) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str() == page) return true;
  std::cerr << path << " is stale; run: ninja -C build/release docs\n";
  return false;
}

bool Write(const std::string& path, const std::string& page) {
  std::ofstream file(path);
  file << page << std::flush;
  if (!file) std::cerr << "cannot write " << path << "\n";
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string_view(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::cerr << "usage: write_docs [--check] DIR\n";
    return 2;
  }
  const std::string dir = argv[argc - 1];
  const auto visit = check ? IsFresh : Write;
  const bool options = visit(dir + "/options.md", OptionsPage());
  const bool ops = visit(dir + "/ops.md", OpsPage());
  return options && ops ? 0 : 1;
}
