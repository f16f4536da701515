// Gives a described job to the place where it runs.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "launcher/jobs/job_file.h"
#include "launcher/jobs/job_record.h"
#include "launcher/jobs/job_refused.h"
#include "launcher/jobs/job_words.h"
#include "launcher/jobs/places/submission.h"

namespace ddprun::launcher {

// A job's file, read and found to be right.
struct LoadedJob {
  JobSource source;
  JobDescription job;
};
// Prints warnings, and mistakes but the last one. Throws UsageError or JobRefused.
LoadedJob load_job(const JobWords& words);
// The job of a record, as it was submitted.
LoadedJob load_job(const JobRecord& record);

// A record with the job's file, and what is needed to read and find it again.
JobRecord record_of(const LoadedJob& loaded, Place place);

// What the place would get: a command, a script or a manifest. Nothing is made.
std::string dry_submission(const LoadedJob& loaded, Place place);
// Starts the job. Throws Error; the record is removed then. Throws SubmissionUnclear, with a whole sentence, where the
// scheduler may have the job all the same; the record stays.
void submit(const LoadedJob& loaded, const JobRecord& record, Place place);

}  // namespace ddprun::launcher
