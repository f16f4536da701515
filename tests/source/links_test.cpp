// The links of docs/, examples/ and of the pages at the top: each leads to a file of the repository, and to a heading
// of it.
#include <cctype>
#include <regex>

#include "tests/support/test.h"

namespace {

// As GitHub names the place of a heading.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const unsigned char c : heading)
    if (c == ' ')
      out += '-';
    else if (std::isalnum(c) || c == '-' || c == '_' || c >= 0x80)
      out += static_cast<char>(std::tolower(c));
  return out;
}

std::set<std::string> anchors_in(const std::string& page) {
  static const std::regex kHeading("(^|\n)#+ ([^\n]*)");
  std::set<std::string> out;
  for (std::sregex_iterator heading(page.begin(), page.end(), kHeading), end; heading != end; ++heading)
    out.insert(anchor_of((*heading)[2]));
  return out;
}

// Where hosts of repositories look for them. README and ARCHITECTURE have their own beginnings.
constexpr const char* kTopPages[] = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"};

std::string broken_links(const fs::path& page) {
  static const std::regex kLink("\\]\\(([^)\\s]+)\\)"), kElsewhere("^[a-z]+:.*");
  const std::string text = read_file(page);
  std::string out;
  for (std::sregex_iterator link(text.begin(), text.end(), kLink), end; link != end; ++link) {
    const std::string target = (*link)[1], file = target.substr(0, target.find('#'));
    if (std::regex_match(target, kElsewhere)) continue;
    const fs::path place = file.empty() ? page : page.parent_path() / file;
    const std::string anchor = target.size() > file.size() ? target.substr(file.size() + 1) : "";
    const bool leads = fs::exists(place) && (anchor.empty() || anchors_in(read_file(place)).contains(anchor));
    if (!leads) out += page.filename().string() + " links to " + target + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("every link of the pages leads to a file and a heading", "[links]") {
  const fs::path source = source_folder();
  std::string broken = broken_links(source / "README.md") + broken_links(source / "ARCHITECTURE.md");
  for (const char* name : kTopPages) broken += broken_links(source / name);
  for (const char* folder : {"docs", "examples"})
    for (const auto& entry : fs::recursive_directory_iterator(source / folder))
      if (entry.path().extension() == ".md") broken += broken_links(entry.path());
  CHECK(broken == "");
}

TEST_CASE("examples/README.md names every example, and each is small", "[links]") {
  const fs::path examples = fs::path(source_folder()) / "examples";
  const std::string index = read_file(examples / "README.md");
  for (const auto& example : fs::directory_iterator(examples)) {
    if (!example.is_directory()) continue;
    INFO(example.path());
    CHECK(index.find("(" + example.path().filename().string() + "/README.md)") != std::string::npos);
    std::ptrdiff_t lines = 0;
    for (const auto& file : fs::directory_iterator(example))
      if (file.path().extension() != ".md" && file.path().extension() != ".ipynb") {
        const std::string text = read_file(file.path());
        lines += std::count(text.begin(), text.end(), '\n');
      }
    CHECK(lines <= 60);
  }
}

TEST_CASE("docs/README.md names every page of docs/", "[links]") {
  const fs::path docs = fs::path(source_folder()) / "docs";
  const std::string index = read_file(docs / "README.md");
  for (const auto& entry : fs::recursive_directory_iterator(docs)) {
    const std::string name = fs::relative(entry.path(), docs).string();
    if (entry.path().extension() != ".md" || name == "README.md" || name.starts_with("decisions/")) continue;
    INFO(name);
    CHECK(index.find("(" + name) != std::string::npos);
  }
}

TEST_CASE("each page says first for whom it is, and has 150 lines at most", "[links]") {
  const fs::path docs = fs::path(source_folder()) / "docs";
  const auto check = [](const std::string& name, const std::string& text) {
    INFO(name);
    CHECK(text.find("\n\nFor ") == text.find("\n\n"));
    if (name != "figures/bench.md") CHECK(std::count(text.begin(), text.end(), '\n') <= 150);  // a table for each bench
  };
  for (const auto& entry : fs::recursive_directory_iterator(docs)) {
    const std::string name = fs::relative(entry.path(), docs).string();
    if (entry.path().extension() == ".md" && !name.starts_with("decisions/")) check(name, read_file(entry.path()));
  }
  for (const char* name : kTopPages) check(name, read_file(docs.parent_path() / name));
}
