#include "launcher/scheduler/node_list.h"

#include "rendezvous/base/spelling.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Names = std::vector<std::string>;

Names names(const std::string& list) { return std::get<Names>(expand_node_list(list)); }

std::string wrong(const std::string& list) {
  const auto read = expand_node_list(list);
  return std::holds_alternative<settings::Wrong>(read) ? std::get<settings::Wrong>(read).complaint : "";
}

// scontrol reads a configuration, but asks no controller to expand a list.
class Scontrol {
 public:
  Scontrol() : conf_(folder_.write("slurm.conf", "ClusterName=test\nSlurmctldHost=localhost\n")) {}
  bool works() const { return hostnames("n[1-2]") == Names{"n1", "n2"}; }
  Names hostnames(const std::string& list) const {
    const Ended ended = test::run({"sh", "-c", "scontrol show hostnames \"$1\"", "sh", list}, 20s,
                                  {.env = {{"SLURM_CONF", conf_.string()}}});
    Names out = split(ended.out, '\n');
    out.pop_back();
    return out;
  }

 private:
  TempFolder folder_;
  fs::path conf_;
};

class RandomList {
 public:
  explicit RandomList(std::uint64_t seed) : random_(seed) {}
  std::string list() {
    std::string out = item();
    for (int more = below(4); more > 0; --more) out += "," + item();
    return out;
  }

 private:
  int below(int end) { return std::uniform_int_distribution<>(0, end - 1)(random_); }
  std::string word() {
    static constexpr const char* kWords[] = {"n", "node", "gpu-", "r2d", "a1-b", "x.", "cn0"};
    return kWords[below(7)];
  }
  std::string range() {
    const int low = below(120), width = 1 + below(4);
    std::string first = std::to_string(low), last = std::to_string(low + below(12));
    first.insert(0, static_cast<std::size_t>(std::max<int>(0, width - static_cast<int>(first.size()))), '0');
    return below(2) ? first : first + "-" + last;
  }
  std::string bracket() {
    std::string out = "[" + range();
    for (int more = below(3); more > 0; --more) out += "," + range();
    return out + "]";
  }
  std::string item() {
    std::string out = word();
    for (int brackets = below(4); brackets > 0; --brackets) out += bracket() + (brackets > 1 ? word() : "");
    return out.back() == ']' ? out : out + std::to_string(below(30));
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("a node list names its nodes in order, with their leading zeros", "[node_list]") {
  CHECK(names("localhost") == Names{"localhost"});
  CHECK(names("n[01-03,7],login2") == Names{"n01", "n02", "n03", "n7", "login2"});
  CHECK(names("n[8-11]") == Names{"n8", "n9", "n10", "n11"});
  CHECK(names("n[098-101]") == Names{"n098", "n099", "n100", "n101"});
  CHECK(names("n[1-03]") == Names{"n1", "n2", "n3"});
  CHECK(names("n[00]") == Names{"n00"});
  CHECK(names("r[1-2]n[01-02]") == Names{"r1n01", "r1n02", "r2n01", "r2n02"});
  CHECK(names("n[1-2]-ib") == Names{"n1-ib", "n2-ib"});
  CHECK(names("b,a,b") == Names{"b", "a", "b"});
  CHECK(names("a,,b,") == Names{"a", "b"});
  CHECK(names("[1-2]") == Names{"1", "2"});
  CHECK(names("cn-1[1-2].site.org,x") == Names{"cn-11.site.org", "cn-12.site.org", "x"});
  CHECK(names("n[1-65536]").size() == kListedNodesMax);
}

TEST_CASE("of three brackets the last changes first, then the first one, as under Slurm", "[node_list]") {
  CHECK(names("a[1-2]b[3-4]c[5-6]") ==
        Names{"a1b3c5", "a1b3c6", "a2b3c5", "a2b3c6", "a1b4c5", "a1b4c6", "a2b4c5", "a2b4c6"});
}

TEST_CASE("a malformed or endless node list is refused with what is wrong", "[node_list]") {
  CHECK(wrong("") == "it takes the names of nodes");
  CHECK(wrong(",") == "it takes the names of nodes");
  CHECK(wrong("n[1-") == "a '[' has no ']'");
  CHECK(wrong("n[1-2,m3") == "a '[' has no ']'");
  CHECK(wrong("n1]") == "a ']' has no '['");
  for (const char* bad : {"3-1", "", "a-c", "1-2-3", "-1", "1-", "1[2", "1x3", " 1", "9999999999999999999"}) {
    CAPTURE(bad);
    CHECK(wrong("n[" + std::string(bad) + "]") ==
          "it takes ranges such as [01-16,20], and '" + std::string(bad) + "' is not a range");
  }
  for (const char* huge :
       {"n[1-65537]", "n[1-60000,1-60000]", "n[0-999999999999999999]", "r[1-300]n[1-300]", "a[1-60000],b[1-60000]",
        "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]", "n[1-60000][1-60000][1-60000]"}) {
    CAPTURE(huge);
    CHECK(wrong(huge) == "it takes at most 65536 nodes");
  }
  CHECK(wrong(std::string(200, 'a') + "[1-2]" + std::string(200, 'b')) == "a node's name has at most 255 characters");
}

TEST_CASE("random node lists name the nodes that scontrol names", "[node_list]") {
  const Scontrol scontrol;
  if (!scontrol.works()) {
    std::cout << "scontrol (slurm-client) is not installed: not compared\n";
    return;
  }
  Series("node lists against scontrol", 20, 500).run([&](std::uint64_t seed) {
    const std::string list = RandomList(seed).list();
    CAPTURE(list);
    CHECK(names(list) == scontrol.hostnames(list));
  });
}

TEST_CASE("random text is expanded or refused, and never takes long", "[node_list]") {
  Series("random node lists", 300, 20'000).run([&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    static constexpr std::string_view kLetters = "n01239-[],x";
    std::string list(random() % 40, ' ');
    for (char& c : list) c = kLetters[random() % kLetters.size()];
    CAPTURE(list);
    const auto read = expand_node_list(list);
    if (const auto* found = std::get_if<Names>(&read)) {
      CHECK(!found->empty());
      CHECK(found->size() <= kListedNodesMax);
      CHECK(found->front().find_first_of("[],") == std::string::npos);
    }
  });
}
