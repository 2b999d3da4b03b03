#include "interop/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kWidestIndent = 256;

/// yaml-cpp recurses as deep as its input nests.
void refuse_deep(std::string_view path, std::string_view text) {
  int depth = 0;
  std::size_t indent = 0;
  bool at_start = true;
  for (const char c : text) {
    if (c == '\n') {
      indent = 0;
      at_start = true;
      continue;
    }
    // "- - - -" nests a list a dash.
    const bool indents = at_start && (c == ' ' || c == '-' || c == '?');
    if (indents)
      ++indent;
    else
      at_start = false;
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > kDeepest || indent > kWidestIndent)
      throw Error(
          fmt::format("{} nests deeper than {} levels", quote(path), kDeepest));
  }
}

void refuse_duplicates(const YAML::Node& node, std::string_view path) {
  if (node.IsSequence())
    for (const YAML::Node& each : node) refuse_duplicates(each, path);
  if (!node.IsMap()) return;
  std::set<std::string> seen;
  for (const auto& pair : node) {
    if (!pair.first.IsScalar())
      throw Error(fmt::format("{}: a key is no text", path));
    if (!seen.insert(pair.first.Scalar()).second)
      throw Error(fmt::format("{}: {} is given twice", path,
                              quote(pair.first.Scalar())),
                  "keep one of them");
    refuse_duplicates(pair.second, path);
  }
}

[[noreturn]] void refuse(std::string_view path, const char* key,
                         const char* expected) {
  throw Error(fmt::format("{}: {} must be {}", path, key, expected));
}

bool is_absent(const YAML::Node& value) {
  return !value.IsDefined() || value.IsNull();
}

/// yaml-cpp takes bytes that are not UTF-8 for characters; PyYAML refuses them.
void refuse_other_encodings(std::string_view path, std::string_view text) {
  std::int64_t line = 1;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0)
      throw Error(
          fmt::format("{} is no YAML: line {} is not UTF-8", quote(path), line),
          "save it as UTF-8");
    if (text.front() == '\n') ++line;
    text.remove_prefix(length);
  }
}

/// The line on which the document read last begins.
class LastDocument : public YAML::EventHandler {
 public:
  [[nodiscard]] int line() const { return line_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    line_ = mark.line + 1;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int line_ = 0;
};

/// YAML::LoadAll would not do: after "{a: 1}, b" yaml-cpp finds documents
/// without end, none of which takes up the comma.
void refuse_another_document(std::string_view path, const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  LastDocument last;
  if (parser.HandleNextDocument(last) && parser.HandleNextDocument(last))
    throw Error(fmt::format("{} holds more than one document: another begins "
                            "on line {}",
                            quote(path), last.line()),
                "keep one");
}

}  // namespace

YAML::Node parse_yaml(std::string_view path, std::string_view text) {
  refuse_deep(path, text);
  refuse_other_encodings(path, text);
  try {
    const std::string whole(text);
    refuse_another_document(path, whole);
    YAML::Node root = YAML::Load(whole);
    if (!root.IsMap())
      throw Error(fmt::format("{} is no map of keys", quote(path)),
                  "as distributed_type: FSDP");
    refuse_duplicates(root, path);
    return root;
  } catch (const YAML::Exception& problem) {
    throw Error(fmt::format("{} is no YAML: line {}: {}", quote(path),
                            problem.mark.line + 1, problem.msg));
  }
}

std::vector<std::string> keys_of(const YAML::Node& map) {
  std::vector<std::string> keys;
  if (map.IsMap())
    for (const auto& pair : map) keys.push_back(pair.first.Scalar());
  return keys;
}

bool truth_or(const YAML::Node& map, std::string_view path, const char* key,
              bool missing) {
  const YAML::Node value = map[key];
  if (is_absent(value)) return missing;
  bool truth = false;
  if (!value.IsScalar() || !YAML::convert<bool>::decode(value, truth))
    refuse(path, key, "true or false");
  return truth;
}

int whole_or(const YAML::Node& map, std::string_view path, const char* key,
             int missing) {
  const YAML::Node value = map[key];
  if (is_absent(value)) return missing;
  int number = 0;
  constexpr int kMost = 1'000'000;
  if (!value.IsScalar() || !YAML::convert<int>::decode(value, number) ||
      number < 0 || number > kMost)
    refuse(path, key, "a whole number");
  return number;
}

std::string word_or(const YAML::Node& map, std::string_view path,
                    const char* key, const std::string& missing) {
  const YAML::Node value = map[key];
  if (is_absent(value)) return missing;
  if (!value.IsScalar()) refuse(path, key, "a text");
  return value.Scalar();
}

}  // namespace ztplan
