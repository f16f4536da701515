// What is kept of a job that was started without a file.
#include "launcher/jobs/plain_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "launcher/jobs/ended_job.h"
#include "launcher/running/job_facts.h"
#include "tests/support/test.h"

namespace {

PlainJob failed_job() {
  return {.command = {"ddprun", "--nproc_per_node=2", "runs/train.py", "two words"},
          .program = "runs/train.py",
          .folder = "/work",
          .run_id = "17",
          .host = "node0",
          .started = 1000,
          .ended = 3500,
          .exit_code = 1,
          .end = {{"exit_code", 1}, {"message", "rank 0 failed."}, {"first_failure", {{"global_rank", 0}}}}};
}

Words names_in(const fs::path& folder) {
  Words out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename());
  return out;
}

// As if it had ended so long ago.
void age(const fs::path& record, std::chrono::minutes by) {
  fs::last_write_time(record, fs::file_time_type::clock::now() - by);
}

}  // namespace

TEST_CASE("a plain job's record has its command, folder, times, end and report, for its user alone", "[plain_record]") {
  const TempFolder folder;
  keep_plain_record(folder.path(), failed_job());
  const std::vector<JobRecord> records = all_records(folder.path());
  REQUIRE(records.size() == 1);
  CHECK(is_plain(records[0]));
  const JobFacts facts = recorded_facts(records[0]);
  CHECK(facts.id.starts_with("train-"));
  CHECK(state_of(facts) == "failed");
  CHECK(exit_code_of(facts) == 1);
  const std::string text = describe_text(facts);
  CHECK_THAT(text, Contains("reason:           rank 0 failed.\n"));
  CHECK_THAT(text, Contains("command:          ddprun --nproc_per_node=2 runs/train.py 'two words'\n"));
  CHECK_THAT(text, Contains("source folder:    /work\n"));
  CHECK_THAT(text, Contains("run id:           17\n"));
  CHECK_THAT(text, Contains("seconds:          2.5 s\n"));
  struct stat status {};
  REQUIRE(stat(records[0].folder().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("a plain job is found by its id, its program's name and its run id, after jobs of files", "[plain_record]") {
  const TempFolder folder;
  keep_plain_record(folder.path(), failed_job());
  const std::string id = all_records(folder.path())[0].id();
  const auto found = [&](const std::string& words) {
    const auto record = find_record(folder.path(), words);
    return std::holds_alternative<JobRecord>(record) ? std::get<JobRecord>(record).id() : std::get<std::string>(record);
  };
  for (const std::string& words : {id, "here://" + id, std::string("train"), std::string("17")})
    CHECK(found(words) == id);
  const JobRecord of_file = make_record(folder.path(), "train");
  of_file.write("submitted.json", {{"place", "here"}});
  CHECK(found("train") == of_file.id());
  CHECK(found(id) == id);
}

TEST_CASE("the newest plain jobs are kept, and nothing that is not one of them is removed", "[plain_record]") {
  const TempFolder folder;
  const JobRecord of_file = make_record(folder.path(), "train");
  of_file.write("submitted.json", {{"place", "here"}});
  age(of_file.folder(), std::chrono::hours(5));
  keep_plain_record(folder.path(), failed_job());
  const fs::path plain = folder / kPlainFolder;
  const std::string oldest = names_in(plain).front();
  age(plain / oldest, std::chrono::hours(3));
  fs::create_directory(plain / ".writing.abandoned");
  age(plain / ".writing.abandoned", std::chrono::hours(2));
  fs::create_directory(plain / ".writing.busy");
  folder.write("plain/notes", "of the user");
  for (std::size_t i = 1; i < kPlainKept; ++i) keep_plain_record(folder.path(), failed_job());
  CHECK(fs::exists(plain / oldest));
  CHECK_FALSE(fs::exists(plain / ".writing.abandoned"));
  keep_plain_record(folder.path(), failed_job());
  CHECK_FALSE(fs::exists(plain / oldest));
  CHECK(fs::exists(plain / ".writing.busy"));
  CHECK(fs::exists(plain / "notes"));
  CHECK(all_records(folder.path()).size() == kPlainKept + 1);
}

TEST_CASE("jobs that end at the same moment leave whole records, so many as are kept", "[plain_record]") {
  const TempFolder folder;
  {
    std::vector<std::jthread> jobs;
    for (int job = 0; job < 4; ++job)
      jobs.emplace_back([&] {
        for (int i = 0; i < 10; ++i) keep_plain_record(folder.path(), failed_job());
      });
  }
  const std::vector<JobRecord> records = all_records(folder.path());
  CHECK(records.size() == kPlainKept);
  for (const JobRecord& record : records) CHECK(state_of(recorded_facts(record)) == "failed");
  CHECK(names_in(folder / kPlainFolder).size() == kPlainKept);
}

TEST_CASE("where there can be no record none is kept, and a folder of another user is left alone", "[plain_record]") {
  const TempFolder folder;
  keep_plain_record(folder.write("file", "") / "records", failed_job());
  CHECK(names_in(folder.path()) == Words{"file"});
  if (geteuid() != 0) return;
  fs::create_directories(folder / "home/.local");
  for (const char* of_user : {"home", "home/.local"}) REQUIRE(chown((folder / of_user).c_str(), 65534, 65534) == 0);
  keep_plain_record(folder / "home/.local/state/ddprun/jobs", failed_job());
  CHECK(names_in(folder / "home/.local").empty());
  fs::create_directories(folder / "jobs/plain");
  REQUIRE(chown((folder / "jobs/plain").c_str(), 65534, 65534) == 0);
  keep_plain_record(folder / "jobs", failed_job());
  CHECK(names_in(folder / "jobs/plain").empty());
}

TEST_CASE("a record's name is of the program's, and long texts are cut", "[plain_record]") {
  CHECK(plain_name("runs/train.py") == "train");
  CHECK(plain_name("pkg.module") == "pkg.module");
  CHECK(plain_name("/usr/bin/my tool!") == "mytool");
  CHECK(plain_name("-.py") == "job");
  CHECK(plain_name("") == "job");
  CHECK(plain_name(std::string(300, 'a')).size() == 40);
  PlainJob job = failed_job();
  job.command.insert(job.command.end(), {std::string(1 << 20, 'x'), "last"});
  job.end["message"] = std::string(1 << 20, 'y');
  CHECK(submitted_of(job).dump().size() < 20'000);
  CHECK(status_of(job).dump().size() < 70'000);
  CHECK(submitted_of(job)["command"].size() == 5);
}

TEST_CASE("of several nodes the first one keeps the record", "[plain_record]") {
  Config config;
  const auto is_first = [&](const std::optional<rendezvous::Seat>& seat) {
    return is_first_node(record_facts(config, "id"), seat);
  };
  CHECK(is_first({}));
  config.nnodes = {2, 2};
  CHECK(is_first({}));
  CHECK_FALSE(is_first(rendezvous::Seat{.group_rank = 1}));
  config.node_rank = 1;
  CHECK_FALSE(is_first({}));
  config.node_rank = 0;
  config.rdzv_backend = Backend::c10d;
  CHECK_FALSE(is_first({}));
  CHECK(is_first(rendezvous::Seat{.group_rank = 0}));
}
