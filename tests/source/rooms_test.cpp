// The README.md of each folder of sources: what the folder is for, and a list that names each of its units once. A unit
// is a header with its source, without ending.
#include "tests/support/test.h"

namespace {

using Names = std::set<std::string>;

constexpr std::size_t kUnitsMax = 20, kReadmeLinesMax = 25, kReadmeColumnsMax = 140;

// The folders that have more units, and how many at most: they must not grow.
const std::map<std::string, std::size_t> kMoreUnits{{"agent/logs", 22},
                                                    {"rendezvous/base", 22},
                                                    {"rendezvous/peer", 26},
                                                    {"trainer/ddp/snapshot", 26},
                                                    {"trainer/include/ddprun", 24}};

struct Room {
  std::string path = {};    // "launcher/jobs"
  std::string readme = {};  // empty: there is none
  Names units = {};         // "job_record"
  Names rooms = {};         // the next ones below it: "places/"
};

// By path: the folders that have sources, and the four on top.
std::map<std::string, Room> rooms_of_the_sources() {
  const fs::path source = source_folder();
  std::map<std::string, Room> rooms;
  for (const char* top : {"launcher", "agent", "rendezvous", "trainer"}) {
    rooms[top];
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source / top)) {
      const fs::path path = fs::relative(entry.path(), source);
      if (path.extension() != ".h" && path.extension() != ".cpp") continue;
      if (path.string().starts_with("trainer/ddp/gloo_shim/")) continue;  // Gloo's own names, in Gloo's own folders
      rooms[path.parent_path().string()].units.insert(path.stem().string());
    }
  }
  for (auto& [path, room] : rooms) {
    room.path = path;
    room.readme = read_file(source / path / "README.md");
    fs::path above = fs::path(path).parent_path();
    while (!above.empty() && !rooms.contains(above.string())) above = above.parent_path();
    if (!above.empty()) rooms.at(above.string()).rooms.insert(fs::relative(path, above).string() + "/");
  }
  return rooms;
}

// What stands in backticks, in order.
Words names_in(const std::string& text) {
  static const std::regex kName("`([^`\n]+)`");
  Words out;
  for (std::sregex_iterator name(text.begin(), text.end(), kName), end; name != end; ++name) out.push_back((*name)[1]);
  return out;
}

// The items of its lists, without the sentences around them: programs may be named there.
std::string lists_of(const Words& lines) {
  std::string out;
  for (const std::string& line : lines)
    if (line.starts_with("- ") || line.starts_with("  ")) out += line + "\n";
  return out;
}

std::string problem_of_size(const Room& room) {
  const auto more = kMoreUnits.find(room.path);
  const std::size_t limit = more == kMoreUnits.end() ? kUnitsMax : more->second;
  if (room.units.size() <= limit) return "";
  return room.path + " has " + std::to_string(room.units.size()) + " units (headers with their sources), " +
         std::to_string(limit) + " at most: divide it by subject, or put the new one into another folder\n";
}

std::string problems_of_form(const Room& room, const Words& lines) {
  const std::string file = room.path + "/README.md";
  std::string out;
  if (lines.front() != "# " + room.path)
    out += file + " does not begin with its folder: write \"# " + room.path + "\"\n";
  if (lines.size() > kReadmeLinesMax)
    out += file + " has " + std::to_string(lines.size()) + " lines, " + std::to_string(kReadmeLinesMax) +
           " at most: leave to the headers what they say\n";
  for (const std::string& line : lines)
    if (line.size() > kReadmeColumnsMax)
      out +=
          file + " has a line of more than " + std::to_string(kReadmeColumnsMax) + " columns, break it: " + line + "\n";
  return out;
}

// `paths`: of all rooms.
std::string problems_of_names(const Room& room, const Words& lines, const Names& paths) {
  static const std::regex kUnit("[a-z][a-z0-9_]*"), kPath("[a-z][a-z0-9_]*(/[a-z0-9_]+)*/?");
  const std::string file = room.path + "/README.md";
  const Words named = names_in(room.readme), listed = names_in(lists_of(lines));
  std::string out;
  Names expected = room.units;
  expected.insert(room.rooms.begin(), room.rooms.end());
  for (const std::string& name : expected) {
    const auto times = std::count(named.begin(), named.end(), name);
    if (times == 0)
      out += file + " does not name `" + name + "`: add it to the list, with its subject\n";
    else if (times > 1)
      out += file + " names `" + name + "` " + std::to_string(times) + " times: once is enough\n";
    else if (std::count(listed.begin(), listed.end(), name) == 0)
      out += file + " names `" + name + "` in a sentence: add it to the list instead\n";
  }
  for (const std::string& name : listed)
    if (std::regex_match(name, kUnit) && !expected.contains(name))
      out += file + " lists `" + name + "`, and there is no " + room.path + "/" + name +
             ".h or .cpp: take it off, or write it without backticks\n";
  for (const std::string& name : named)
    if (name.find('/') != name.npos && std::regex_match(name, kPath) && !expected.contains(name) &&
        !paths.contains(name))
      out += file + " names `" + name + "`, which is no folder of sources (any more): write it from the top, as `" +
             room.path + "`\n";
  return out;
}

// What is wrong with a room, and what to do, a sentence a line.
std::string problems_of(const Room& room, const Names& paths) {
  if (room.readme.empty())
    return "there is no " + room.path + "/README.md: write what the folder is for, and a list that names its units\n" +
           problem_of_size(room);
  const Words lines = lines_of(room.readme);
  return problems_of_form(room, lines) + problems_of_names(room, lines, paths) + problem_of_size(room);
}

}  // namespace

TEST_CASE("each folder of sources has a README.md that names its files, and not too many of them", "[rooms]") {
  const std::map<std::string, Room> rooms = rooms_of_the_sources();
  Names paths;
  std::string problems;
  for (const auto& [path, room] : rooms) paths.insert(path);
  for (const auto& [path, room] : rooms) problems += problems_of(room, paths);
  for (const auto& [path, limit] : kMoreUnits)
    if (!rooms.contains(path) || rooms.at(path).units.size() <= kUnitsMax)
      problems += path + " has no more than " + std::to_string(kUnitsMax) + " units: take it off kMoreUnits\n";
  CHECK(problems == "");
  CHECK(rooms.size() > 50);
}

TEST_CASE("what is wrong with the README.md of a folder is told with what to do", "[rooms]") {
  const Names paths{"agent/logs", "launcher/jobs"};
  Room room{
      .path = "launcher/jobs",
      .readme =
          "# launcher/jobs\n\nJobs of `ddprun`; their output: `agent/logs`.\n\n- `job` (runs), `end_file`,\n  `log` "
          "(by `--log-dir`, `ddprun log` and `log.py`), `places/`\n",
      .units = {"end_file", "job", "log"},
      .rooms = {"places/"}};
  const auto told_of = [&](const std::string& from, const std::string& to) {
    Room changed = room;
    changed.readme.replace(changed.readme.find(from), from.size(), to);
    return problems_of(changed, paths);
  };
  const std::string file = "launcher/jobs/README.md ";
  CHECK(problems_of(room, paths) == "");
  CHECK(told_of("`end_file`,", "") == file + "does not name `end_file`: add it to the list, with its subject\n");
  CHECK(told_of(", `places/`", "") == file + "does not name `places/`: add it to the list, with its subject\n");
  CHECK(told_of("`log` ", "`log`, `job` ") == file + "names `job` 2 times: once is enough\n");
  CHECK(told_of("(runs)", "(`runs`)") ==
        file +
            "lists `runs`, and there is no launcher/jobs/runs.h or .cpp: take it off, or write it without backticks\n");
  CHECK(told_of("- `job`", "`job`") == file + "names `end_file` in a sentence: add it to the list instead\n" + file +
                                           "names `job` in a sentence: add it to the list instead\n");
  CHECK(told_of("agent/logs", "agent/log") ==
        file +
            "names `agent/log`, which is no folder of sources (any more): write it from the top, as `launcher/jobs`\n");
  CHECK(told_of("# launcher/jobs", "# jobs") == file + "does not begin with its folder: write \"# launcher/jobs\"\n");
  CHECK(told_of("Jobs", std::string(20, '\n')) ==
        file + "has 26 lines, 25 at most: leave to the headers what they say\n");
  CHECK_THAT(told_of("Jobs", std::string(120, 'x')),
             StartsWith(file + "has a line of more than 140 columns, break it: xxx"));
  room.readme.clear();
  CHECK(problems_of(room, paths) == "there is no " + file.substr(0, file.size() - 1) +
                                        ": write what the folder is for, and a list that names its units\n");
  for (int more = 0; more < 18; ++more) room.units.insert("more_" + std::to_string(more));
  CHECK_THAT(
      problems_of(room, paths),
      EndsWith("launcher/jobs has 21 units (headers with their sources), 20 at most: divide it by subject, or put "
               "the new one into another folder\n"));
}
