#include "launcher/command/job_submission.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>

#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/jobs/places/kubernetes.h"
#include "launcher/jobs/places/kubernetes_manifest.h"
#include "launcher/jobs/places/kubernetes_words.h"
#include "launcher/jobs/places/slurm.h"
#include "launcher/jobs/places/slurm_script.h"
#include "launcher/jobs/places/slurm_words.h"
#include "launcher/plan/search_context.h"
#include "launcher/settings/values.h"
#include "launcher/settings/yaml.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr mode_t kPrivate = 0600;

[[noreturn]] void refuse(const std::vector<std::string>& sentences) {
  for (std::size_t i = 0; i + 1 < sentences.size(); ++i) print_line(stderr, "ddprun: " + sentences[i]);
  throw JobRefused(sentences.back());
}

JobDescription described(const JobSource& source, bool warn) {
  DescribedJob read = read_job_description(source);
  if (warn)
    for (const std::string& sentence : read.warnings) print_line(stderr, "ddprun: " + sentence);
  if (!read.mistakes.empty()) refuse(read.mistakes);
  return std::move(read.job);
}

std::string text_of_file(const std::string& file) {
  const auto content = process_inputs().read_file(file);
  if (const auto* failed = std::get_if<Unreadable>(&content))
    throw UsageError("cannot read the job's file " + file, failed->why, "");
  if (settings::is_yaml(file)) throw JobRefused(settings::yaml_refusal(file, "ddprun"));
  return std::get<FileText>(content).text;
}

void check_folder(const JobDescription& job) {
  if (!fs::is_directory(job.source_dir))
    throw UsageError("cannot run the job in " + job.source_dir, "there is no such folder",
                     "source_dir in its file names the folder of the program.");
}

bool has_hosts(const JobDescription& job) {
  for (const std::string& option : job.options)
    if (option.starts_with("--hosts=") || option.starts_with("--hostfile=")) return true;
  return false;
}

// A pod of a job that `ddprun submit --to k8s` has made: the others run the same file.
bool in_a_pod() { return own_environment().contains("JOB_COMPLETION_INDEX"); }

void check_place(const LoadedJob& loaded, Place place) {
  const JobDescription& job = loaded.job;
  if (place == Place::ssh && !has_hosts(job))
    throw UsageError("cannot submit to ssh", "the job's file names no hosts",
                     "Add hosts = \"a:4,b:4\" or hostfile = \"FILE\".");
  if ((place == Place::slurm || place == Place::kubernetes) && has_hosts(job))
    throw UsageError("cannot submit to " + name_of(place), "the job's file names hosts for ssh",
                     "Leave hosts and hostfile out: the scheduler chooses the nodes.");
  if (place == Place::here && job.nodes > 1 && !has_hosts(job) && !in_a_pod())
    throw UsageError("cannot run a job of " + std::to_string(job.nodes) + " nodes here", "this is one machine",
                     "Name hosts = \"a:4,b:4\", or use --to slurm or k8s.");
  if (place == Place::slurm)
    if (const auto wrong = slurm_problems(job); !wrong.empty()) refuse(wrong);
  if (place == Place::kubernetes)
    if (const auto wrong = read_kubernetes_words(job).mistakes; !wrong.empty()) refuse(wrong);
  if (place == Place::kubernetes && !loaded.source.arguments.empty())
    throw UsageError("cannot hand on the words behind --", "pods get the job's file alone",
                     "Write them into it, as arguments or hyperparameters, or use --set.");
  if (place != Place::kubernetes) check_folder(job);  // an image has a folder of its own
}

std::string manifest_of(const LoadedJob& loaded, const std::string& id, const std::string& token) {
  return kubernetes_manifest({loaded.job, id, loaded.source.text, loaded.source.overrides, token});
}

// Goes on when we and our terminal have ended; its output is the log.
void start_in_background(const JobRecord& record) {
  const std::string program = own_program(), folder = record.folder().string();
  const Fd log(::open(record.path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kPrivate));
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!log || !null) throw Error("cannot write " + record.path("log").string(), std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) throw Error("cannot start the job", std::strerror(errno));
  if (pid > 0) return;
  setsid();
  signal(SIGHUP, SIG_DFL);
  dup2(null.get(), STDIN_FILENO);
  dup2(log.get(), STDOUT_FILENO);
  dup2(log.get(), STDERR_FILENO);
  execl(program.c_str(), "ddprun", "run", "--record", folder.c_str(), static_cast<char*>(nullptr));
  _exit(kInternalError);
}

nlohmann::json kubernetes_place(const LoadedJob& loaded, const std::string& id) {
  const KubernetesSettings settings = read_kubernetes_words(loaded.job).settings;
  return {{"name", kubernetes_name(id)}, {"namespace", settings.name_space}, {"jobset", settings.jobset}};
}

// What a user can do about a job that the scheduler may have or not. `why` is a part of a sentence.
std::string unclear_sentence(const LoadedJob& loaded, const JobRecord& record, Place place, const std::string& why) {
  if (place == Place::kubernetes)
    return "the cluster may have this job, or a part of it: " + why + ". ddprun cancel " + record.id() +
           " removes what it has.";
  std::string name;
  for (const auto& [word, value] : sbatch_options(loaded.job, record.folder()))
    if (with_dashes(word) == "job-name") name = value;
  return "Slurm may have this job or not: " + why + ". squeue --me --name=" + shell_word(name) +
         " shows its number if it has, and scancel with that number ends it; else remove the folder " +
         record.folder().string() + ".";
}

// Returns why it has failed, as a sentence.
std::string write_if_possible(const JobRecord& record, const nlohmann::json& submitted) try {
  record.write("submitted.json", submitted);
  return {};
} catch (const Error& error) {
  return error.what();
}

std::string as_number(const nlohmann::json& submitted) {
  return submitted.contains("place_id") ? ", as Slurm's job " + submitted["place_id"].get<std::string>() : "";
}

// Changes `submitted`: where the job is. The number of a job that Slurm has taken is told whatever happens next.
void hand_over(const LoadedJob& loaded, const JobRecord& record, Place place, nlohmann::json& submitted) {
  const auto say = [](const std::string& sentence) { print_line(stderr, "ddprun submit: " + sentence); };
  if (place == Place::kubernetes)
    return submit_to_kubernetes(manifest_of(loaded, record.id(), rendezvous::make_token()), {.tell = say});
  const std::string id = submit_to_slurm(record.path("job.sbatch"), {.tell = say});
  say("Slurm's job is " + id + ".");
  submitted["place_id"] = id;
}

// The record says that it is unclear from before the scheduler is asked: we may be killed meanwhile.
void submit_to_scheduler(const LoadedJob& loaded, const JobRecord& record, Place place) {
  wipe_token_variable();  // the job makes one of its own
  nlohmann::json submitted = record.submitted();
  submitted["unclear"] = unclear_sentence(loaded, record, place, "ddprun submit ended before it had the answer");
  if (place == Place::slurm)
    record.write_text("job.sbatch", slurm_script(loaded.job, record.folder(), own_program()));
  else
    submitted["kubernetes"] = kubernetes_place(loaded, record.id());
  record.write("submitted.json", submitted);
  try {
    hand_over(loaded, record, place, submitted);
  } catch (const SubmissionUnclear& unclear) {
    submitted["unclear"] = unclear_sentence(loaded, record, place, unclear.what());
    write_if_possible(record, submitted);
    throw SubmissionUnclear(submitted["unclear"].get<std::string>());
  }
  submitted.erase("unclear");
  if (const std::string problem = write_if_possible(record, submitted); !problem.empty())
    throw SubmissionUnclear("the job is submitted" + as_number(submitted) + ", but " + problem +
                            " So ddprun status does not find it there; do not submit it again.");
}

}  // namespace

LoadedJob load_job(const JobWords& words) {
  LoadedJob out;
  const fs::path file = fs::absolute(words.file);
  out.source = {words.file, file.parent_path().lexically_normal().string(), text_of_file(words.file), words.overrides,
                words.arguments};
  out.job = described(out.source, true);
  check_place(out, words.to);
  return out;
}

LoadedJob load_job(const JobRecord& record) {
  const nlohmann::json submitted = record.submitted();
  LoadedJob out;
  if (!submitted.is_object())
    throw UsageError("cannot run the job of " + record.folder().string(), "it is no job's record", "");
  out.source = {submitted.value("file", "job.toml"), submitted.value("folder", ""), record.read_text("job.toml"),
                submitted.value("overrides", std::vector<std::string>()),
                submitted.value("arguments", std::vector<std::string>())};
  out.job = described(out.source, false);
  return out;
}

JobRecord record_of(const LoadedJob& loaded, Place place) {
  const JobRecord record = make_record(records_folder(own_environment()), loaded.job.name);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  record.write_text("job.toml", loaded.source.text);
  record.write_text("ddprun.toml", loaded.job.config);
  record.write("submitted.json", {{"place", name_of(place)},
                                  {"at", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
                                  {"file", loaded.source.name},
                                  {"folder", loaded.source.folder},
                                  {"overrides", loaded.source.overrides},
                                  {"arguments", loaded.source.arguments},
                                  {"source_dir", loaded.job.source_dir},
                                  {"program", loaded.job.program},
                                  {"tags", loaded.job.tags},
                                  {"record", record.folder().string()}});
  return record;
}

std::string dry_submission(const LoadedJob& loaded, Place place) {
  const std::string id = loaded.job.name + "-000000";
  const fs::path folder = records_folder(own_environment()) / id;
  if (place == Place::slurm) return slurm_script(loaded.job, folder, own_program());
  if (place == Place::kubernetes) return manifest_of(loaded, id, kNoToken);
  return "cd " + shell_word(loaded.job.source_dir) + "\n" + shell_word(own_program()) + " --config " +
         shell_word((folder / "ddprun.toml").string()) + "\n\n# ddprun.toml\n" + loaded.job.config;
}

void submit(const LoadedJob& loaded, const JobRecord& record, Place place) {
  try {
    if (place == Place::slurm || place == Place::kubernetes) return submit_to_scheduler(loaded, record, place);
    start_in_background(record);
  } catch (const SubmissionUnclear&) {
    throw;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(record.folder(), ignored);
    throw;
  }
}

}  // namespace ddprun::launcher
