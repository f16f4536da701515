#include "launcher/jobs/places/slurm_container.h"

#include <algorithm>

#include "launcher/jobs/places/quoting.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kPyxis = "pyxis";
constexpr const char* kApptainer = "apptainer";

// ddprun is seen under its own path, and nothing else of its folder: /usr would hide the image's own.
constexpr const char* kMountDdprun = R"(for part in "$ddprun" "${ddprun%/bin/*}"/{lib,share}/ddprun; do
  if [ -e "$part" ]; then mounts+=,$part:$part:ro; fi
done
)";

constexpr const char* kFindGpus = R"(gpus=
if [ -e /dev/nvidiactl ]; then gpus=--nv; elif [ -e /dev/kfd ]; then gpus=--rocm; fi
)";

// pyxis's own spellings are taken, too.
std::string own_name(const std::string& name) {
  if (name == "container-image") return "image";
  return name == "container-mounts" ? "mounts" : name;
}

std::string value_of(const SchedulerWords& words, const std::string& name) {
  const auto found =
      std::find_if(words.begin(), words.end(), [&](const auto& word) { return own_name(word.first) == name; });
  return found == words.end() ? "" : found->second;
}

// Apptainer's images are files of its own and addresses with a scheme; enroot's are .sqsh files and names.
std::string runtime_of(const SchedulerWords& words) {
  const std::string given = value_of(words, "runtime"), image = value_of(words, "image");
  if (!given.empty()) return given;
  return image.ends_with(".sif") || image.find("://") != image.npos ? kApptainer : kPyxis;
}

bool is_inside(const SchedulerWords& words) { return value_of(words, "ddprun") == "inside"; }

// `ours`: also for apptainer; the rest are options of pyxis.
bool is_ours(const std::string& name) {
  const std::string own = own_name(name);
  return own == "image" || own == "mounts" || own == "runtime" || own == "ddprun";
}

std::string pyxis_options(const SchedulerWords& words) {
  std::string out;
  for (const auto& [name, value] : words)
    if (!is_ours(name)) out += " --" + name + (value.empty() ? "" : "=" + shell_word(value));
  return out;
}

}  // namespace

// Shifter's images ("docker:name", "id:...") and OCI bundles are sbatch's own words: their jobs enter the container
// themselves.
bool is_container_word(const std::string& name, const std::string& value) {
  const bool of_shifter = name == "image" && ((value.starts_with("docker:") && !value.starts_with("docker://")) ||
                                              value.starts_with("id:"));
  return !of_shifter && name != "container-id" && (is_ours(name) || name.starts_with("container-"));
}

std::vector<std::string> container_problems(const JobDescription& job, const SchedulerWords& words) {
  if (words.empty()) return {};
  std::vector<std::string> out;
  const std::string runtime = runtime_of(words), ddprun = value_of(words, "ddprun");
  if (value_of(words, "image").empty())
    out.push_back("[slurm] has words for a container and no image: image = \"nvcr.io#nvidia/pytorch:25.10-py3\".");
  if (runtime != kPyxis && runtime != kApptainer)
    out.push_back("[slurm] runtime is '" + visible(runtime) + "'; it takes pyxis or apptainer.");
  if (!ddprun.empty() && ddprun != "inside")
    out.push_back(
        "[slurm] ddprun is '" + visible(ddprun) +
        "'; it takes inside, for the one that the image has on its PATH. Without it the nodes' own is mounted.");
  if (job.source_dir.find_first_of(",:") != std::string::npos)
    out.push_back("source_dir " + visible(job.source_dir) + " cannot be mounted: commas and colons end a path there.");
  for (const auto& [name, value] : words)
    if (runtime == kApptainer && !is_ours(name))
      out.push_back("[slurm] " + name + " is an option of pyxis, and the image is apptainer's.");
  return out;
}

ContainerLines container_lines(const JobDescription& job, const SchedulerWords& words) {
  const std::string image = value_of(words, "image"), mounts = value_of(words, "mounts");
  if (image.empty()) return {.program = "\"$ddprun\""};
  ContainerLines out;
  out.program = is_inside(words) ? "ddprun" : "\"$ddprun\"";
  out.before = "\n# What the container sees besides itself, under the same paths.\nmounts=$record:$record";
  if (!job.source_dir.empty()) out.before += "," + shell_word(job.source_dir + ":" + job.source_dir);
  if (!mounts.empty()) out.before += "," + shell_word(mounts);
  out.before += '\n';
  if (!is_inside(words)) out.before += kMountDdprun;
  const std::string folder = job.source_dir.empty() ? "" : shell_word(job.source_dir);
  if (runtime_of(words) == kApptainer) {
    out.before += kFindGpus;
    out.entry = "apptainer exec $gpus --bind \"$mounts\"" + (folder.empty() ? "" : " --pwd " + folder) + " " +
                shell_word(image) + " ";
  } else {
    out.srun_options = " --container-image=" + shell_word(image) + " --container-mounts=\"$mounts\"" +
                       (folder.empty() ? "" : " --container-workdir=" + folder) + pyxis_options(words);
  }
  return out;
}

}  // namespace ddprun::launcher
