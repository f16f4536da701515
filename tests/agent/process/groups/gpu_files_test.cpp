// AMD's and Intel's GPUs in trees like /sys of machines that have some.
#include "agent/process/groups/gpu_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include "agent/process/groups/topology.h"
#include "tests/support/test.h"

namespace {

using namespace ddprun::agent;
namespace fs = std::filesystem;

class Tree {
 public:
  void write(const std::string& file, const std::string& content = "") {
    fs::create_directories((folder_ / file).parent_path());
    folder_.write(file, content);
  }
  // As amdkfd writes it; a processor has no SIMD units.
  void kfd_node(int number, int simd_count, int bus, int minor, const std::string& unique_id,
                const std::string& isa = "90402") {
    write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(number) + "/properties",
          "cpu_cores_count " + std::string(simd_count > 0 ? "0" : "64") + "\nsimd_count " + std::to_string(simd_count) +
              "\nlocation_id " + std::to_string(bus * 256) + "\ndomain 0\ndrm_render_minor " + std::to_string(minor) +
              "\nunique_id " + unique_id + "\ngfx_target_version " + isa + "\n");
  }
  void drm_card(int number, const std::string& address, const std::string& vendor, int minor) {
    const std::string device = "sys/devices/pci0000:00/" + address;
    write(device + "/vendor", vendor + "\n");
    write(device + "/drm/renderD" + std::to_string(minor) + "/dev", "226:128\n");
    write("dev/dri/renderD" + std::to_string(minor));
    const std::string card = "sys/class/drm/card" + std::to_string(number);
    fs::create_directories(folder_ / card);
    fs::create_directory_symlink(folder_ / device, folder_ / (card + "/device"));
  }
  fs::path root() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

// Two processors and three MI300X, of which a container has two.
void add_amd(Tree& tree) {
  tree.write("dev/kfd");
  tree.write("dev/dri/renderD128"), tree.write("dev/dri/renderD130");
  tree.kfd_node(0, 0, 0, 0, "0"), tree.kfd_node(1, 0, 0, 0, "0");
  tree.kfd_node(2, 1216, 0x0c, 128, "6147152348472"), tree.kfd_node(3, 1216, 0x22, 129, "77");
  tree.kfd_node(10, 1216, 0xdf, 130, "255");
}

std::vector<std::string> addresses(const std::vector<GpuFile>& gpus) {
  std::vector<std::string> out;
  for (const GpuFile& gpu : gpus) out.push_back(gpu.address);
  return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("AMD's GPUs are the nodes of amdkfd with SIMD units that this process may open", "[gpus]") {
  Tree tree;
  add_amd(tree);
  const auto gpus = amd_gpus(tree.root());
  CHECK(addresses(gpus) == Words{"0000:0c:00.0", "0000:df:00.0"});
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[1].id == "GPU-00000000000000ff");
  fs::remove(tree.root() / "dev/kfd");
  CHECK(amd_gpus(tree.root()).empty());
}

TEST_CASE("a processor's own GPU is none of AMD's: beside it PyTorch for the CPU trains", "[gpus]") {
  Tree tree;
  tree.write("dev/kfd"), tree.write("dev/dri/renderD128"), tree.write("dev/dri/renderD129");
  tree.kfd_node(0, 0, 0, 0, "0");
  tree.kfd_node(1, 24, 0xc5, 128, "0", "110003");  // Ryzen 7840U
  CHECK(amd_gpus(tree.root()).empty());
  tree.kfd_node(2, 192, 0x03, 129, "9", "110000");  // and a Radeon RX 7900
  CHECK(addresses(amd_gpus(tree.root())) == Words{"0000:03:00.0"});
}

TEST_CASE("ROCR_VISIBLE_DEVICES leaves some, and HIP's counts among these, or else CUDA's", "[gpus]") {
  const std::vector<GpuFile> gpus{{"GPU-aa", "0"}, {"GPU-bb", "1"}, {"GPU-cc", "2"}};
  CHECK(addresses(left_by_rocr(gpus, {})) == Words{"0", "1", "2"});
  CHECK(addresses(left_by_rocr(gpus, {.rocr = "2,GPU-aa"})) == Words{"2", "0"});
  CHECK(addresses(left_by_rocr(gpus, {.rocr = "1,9,0"})) == Words{"1"});
  CHECK(addresses(left_by_rocr(gpus, {.rocr = ""})).empty());
  CHECK(chosen_of_rocr({}) == nullptr);
  CHECK(std::string(chosen_of_rocr({.cuda = "1"})) == "1");
  CHECK(std::string(chosen_of_rocr({.cuda = "1", .hip = "0"})) == "0");
}

TEST_CASE("Intel's GPUs are cards with a bus of their own, each tile for itself", "[gpus]") {
  Tree tree;
  tree.drm_card(0, "0000:00:02.0", "0x8086", 128);  // the processor's
  tree.drm_card(1, "0000:9a:00.0", "0x8086", 129), tree.drm_card(2, "0000:29:00.0", "0x8086", 130);
  tree.drm_card(3, "0000:40:00.0", "0x10de", 131);
  tree.write("sys/class/drm/card1-HDMI-A-1/status", "connected\n");
  tree.write("sys/class/drm/card1/device/tile0/gt0/id"), tree.write("sys/class/drm/card1/device/tile1/gt1/id");
  tree.write("sys/class/drm/card2/gt/gt0/id");
  CHECK(addresses(intel_gpus({}, tree.root())) == Words{"0000:29:00.0", "0000:9a:00.0", "0000:9a:00.0"});
  CHECK(addresses(intel_gpus({.hierarchy = "COMPOSITE"}, tree.root())) == Words{"0000:29:00.0", "0000:9a:00.0"});
  fs::remove(tree.root() / "dev/dri/renderD130");
  CHECK(intel_gpus({}, tree.root()).size() == 2);
  CHECK(amd_gpus(tree.root()).empty());
}

TEST_CASE("ZE_AFFINITY_MASK leaves the GPUs that it names", "[gpus]") {
  const std::vector<GpuFile> gpus{{"", "a"}, {"", "b"}, {"", "c"}};
  CHECK(addresses(left_by_mask(gpus, {})) == Words{"a", "b", "c"});
  CHECK(left_by_mask(gpus, {.mask = ""}).size() == 3);
  CHECK(addresses(left_by_mask(gpus, {.mask = "2,0"})) == Words{"c", "a"});
  CHECK(addresses(left_by_mask(gpus, {.mask = "1.0,1.1"})) == Words{"b"});
  CHECK(left_by_mask(gpus, {.mask = "7"}).empty());
}

TEST_CASE("a worker is bound near its GPU of AMD, as the variables order them", "[gpus]") {
  Tree tree;
  add_amd(tree);
  tree.write("sys/bus/pci/devices/0000:0c:00.0/numa_node", "0\n");
  tree.write("sys/bus/pci/devices/0000:df:00.0/numa_node", "1\n");
  const auto devices = read_topology(NumaBinding::node, {.hip = "1,0"}, tree.root()).devices;
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].name == "GPU 1 (0000:df:00.0)");
  CHECK(devices[0].node == 1);
  CHECK(read_topology(NumaBinding::node, {.rocr = "1"}, tree.root()).devices.at(0).node == 1);
}
