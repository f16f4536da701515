#include "launcher/jobs/places/kubernetes_words.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kLabelMax = 63, kObjectMax = 253;
constexpr std::size_t kNameMax =
    43;  // a JobSet's pods add "-node-0", "-" and an index, "-" and five letters: 63 in all

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)); }

// What Kubernetes takes as the name of a label, and as its value where it is not empty.
bool is_label_word(const std::string& text) {
  return !text.empty() && text.size() <= kLabelMax && is_letter_or_digit(text.front()) &&
         is_letter_or_digit(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
         });
}

// May have a domain before a slash: "nvidia.com/gpu.product".
bool is_label_name(const std::string& text) {
  const std::size_t slash = text.find('/');
  return slash == text.npos ? is_label_word(text)
                            : is_label_word(text.substr(0, slash)) && is_label_word(text.substr(slash + 1));
}

// Not one that Kubernetes or we set: theirs have a domain, but for these two.
bool is_free_label(const std::string& name) {
  return is_label_word(name) && name != "job-name" && name != "controller-uid";
}

bool is_object_name(const std::string& text) {
  return !text.empty() && text.size() <= kObjectMax && is_letter_or_digit(text.front()) &&
         is_letter_or_digit(text.back()) && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::islower(c) || std::isdigit(c) || c == '.' || c == '-';
         });
}

using KubeProblem = std::string;  // the rest of "[kubernetes] image is 'x'; ..."

KubeProblem store_text(std::string& into, const std::string& value) {
  into = value;
  return value.empty() ? "it takes a text" : "";
}

KubeProblem store_object(std::string& into, const std::string& value) {
  into = value;
  return is_object_name(value) ? ""
                               : "it takes the name of an object of Kubernetes: small letters, digits, dashes and dots";
}

// "4", "500m", "200Gi"
KubeProblem store_quantity(std::string& into, const std::string& value, const char* example) {
  const std::size_t digits = value.find_first_not_of("0123456789.");
  const std::string unit = digits == value.npos ? "" : value.substr(digits);
  static const std::vector<std::string> kUnits{"", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"};
  const bool good = digits != 0 && !value.empty() && value[0] != '.' &&
                    std::count(value.begin(), value.end(), '.') <= 1 &&
                    std::count(kUnits.begin(), kUnits.end(), unit) == 1;
  into = value;
  return good ? "" : std::string("it takes a quantity of Kubernetes, as ") + example;
}

KubeProblem store_kind(KubernetesSettings& to, const std::string& value) {
  to.jobset = value == "jobset";
  return to.jobset || value == "job" ? "" : "it takes job or jobset";
}

KubeProblem store_gpus(KubernetesSettings& to, const std::string& value) {
  const std::size_t colon = value.rfind(':');
  if (colon != value.npos) to.gpu_resource = value.substr(0, colon);
  to.gpus = colon == value.npos ? value : value.substr(colon + 1);
  const bool good = settings::whole_text<unsigned>(to.gpus) && is_label_name(to.gpu_resource);
  if (to.gpus == "0") to.gpus.clear();
  return good ? "" : "it takes a number, or a resource and a number: amd.com/gpu:8";
}

KubeProblem store_volume(KubernetesSettings& to, const std::string& value) {
  const std::size_t colon = value.find(':');
  to.claim = value.substr(0, colon);
  to.mount_path = colon == value.npos ? "" : value.substr(colon + 1);
  return is_object_name(to.claim) && to.mount_path.starts_with('/') && to.mount_path.find(':') == to.mount_path.npos
             ? ""
             : "it takes a claim and where it is mounted: claim:/job";
}

KubeProblem store_folder(std::string& into, const std::string& value) {
  into = value;
  return value.starts_with('/') ? "" : "it takes an absolute path in the container";
}

KubeProblem store_selector(Labels& into, const std::string& value) {
  for (const std::string& part : split(value, ',')) {
    const std::size_t equals = part.find('=');
    const std::string label = equals == part.npos ? "" : part.substr(equals + 1);
    if (equals == part.npos || !is_label_name(part.substr(0, equals)) || !(label.empty() || is_label_word(label)))
      return "it takes labels of nodes: gpu=h100,zone=a";
    into.emplace_back(part.substr(0, equals), label);
  }
  return "";
}

using KubeStore = KubeProblem (*)(KubernetesSettings&, const std::string&);

const std::map<std::string, KubeStore>& kubernetes_stores() {
  using To = KubernetesSettings;
  using Text = const std::string;
  static const std::map<std::string, KubeStore> kStores{
      {"image", [](To& to, Text& value) { return store_text(to.image, value); }},
      {"namespace", [](To& to, Text& value) { return store_object(to.name_space, value); }},
      {"kind", store_kind},
      {"gpus", store_gpus},
      {"cpus", [](To& to, Text& value) { return store_quantity(to.cpus, value, "32 or 500m"); }},
      {"memory", [](To& to, Text& value) { return store_quantity(to.memory, value, "200Gi"); }},
      {"volume", store_volume},
      {"source-dir", [](To& to, Text& value) { return store_folder(to.source_dir, value); }},
      {"service-account", [](To& to, Text& value) { return store_object(to.service_account, value); }},
      {"image-pull-secret", [](To& to, Text& value) { return store_object(to.image_pull_secret, value); }},
      {"node-selector", [](To& to, Text& value) { return store_selector(to.node_selector, value); }},
  };
  return kStores;
}

std::vector<std::string> kubernetes_names() {
  std::vector<std::string> names;
  for (const auto& [name, store] : kubernetes_stores()) names.push_back(name);
  return names;
}

void read_kubernetes_word(const std::string& word, const std::string& value, KubernetesWords& out) {
  const std::string name = with_dashes(word);
  const auto store = kubernetes_stores().find(name);
  if (store == kubernetes_stores().end()) {
    const std::string near = did_you_mean(name, kubernetes_names());
    out.mistakes.push_back("[kubernetes] has no word '" + visible(word) + "'." +
                           (near.empty() ? " It takes " + listed(kubernetes_names(), "and") + "." : near));
    return;
  }
  const KubeProblem problem = store->second(out.settings, value);
  if (!problem.empty())
    out.mistakes.push_back(settings::invalid_value("[kubernetes] " + name, visible(value), problem));
}

}  // namespace

KubernetesWords read_kubernetes_words(const JobDescription& job) {
  KubernetesWords out;
  bool names_folder = false;
  for (const auto& [word, value] : job.kubernetes) {
    read_kubernetes_word(word, value, out);
    names_folder = names_folder || with_dashes(word) == "source-dir";
  }
  if (!names_folder && !out.settings.mount_path.empty()) out.settings.source_dir = out.settings.mount_path;
  const bool named =
      std::any_of(job.kubernetes.begin(), job.kubernetes.end(), [](auto& word) { return word.first == "image"; });
  if (!named)
    out.mistakes.push_back(
        "[kubernetes] has no image: name the one that holds ddprun and the program, image = "
        "\"registry.local/ddprun:1\".");
  return out;
}

bool is_kubernetes_name(const std::string& name) {
  static const std::regex kName("[a-z]([a-z0-9-]{0,61}[a-z0-9])?");
  return std::regex_match(name, kName);
}

std::string kubernetes_name(const std::string& id) {
  std::string name;
  for (const char c : id)
    name += is_letter_or_digit(c) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) name = "job-" + name;
  if (name.size() > kNameMax)
    name = name.substr(0, kNameMax - 7) + name.substr(name.size() - 7);  // the end is what is unique
  while (name.ends_with('-')) name.pop_back();
  return name;
}

TagLabels labels_of_tags(const std::vector<std::string>& tags) {
  TagLabels out;
  for (const std::string& tag : tags) {
    const std::size_t equals = std::min(tag.find('='), tag.size());
    const std::string name = tag.substr(0, equals), value = tag.substr(std::min(equals + 1, tag.size()));
    const bool again = std::any_of(out.labels.begin(), out.labels.end(), [&](auto& one) { return one.first == name; });
    if (is_free_label(name) && (value.empty() || is_label_word(value)) && !again)
      out.labels.emplace_back(name, value);
    else
      out.others.push_back(tag);
  }
  return out;
}

}  // namespace ddprun::launcher
