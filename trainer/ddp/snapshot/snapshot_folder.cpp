#include "trainer/ddp/snapshot/snapshot_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <new>
#include <system_error>
#include <tuple>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/random_name.h"
#include "trainer/ddp/snapshot/damaged.h"

namespace ddprun {
namespace {

Error unwritable(const std::string& path, const std::system_error& error) {
  const Refusal refusal = refusal_of(path, error.code().value());
  return Error("cannot write the snapshot " + path, refusal.why, refusal.remedy);
}

// Where the extension of run.pt begins.
std::size_t ending_of(const std::string& path) {
  const auto slash = path.rfind('/'), dot = path.rfind('.');
  const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
  return dot == std::string::npos || dot <= name ? path.size() : dot;
}

// Removes and returns the number at the front of `text`.
std::optional<std::int64_t> consume_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool consume(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

SnapshotFolder::SnapshotFolder(SnapshotPolicy policy, Files& files)
    : policy_(std::move(policy)), files_(files), folder_(folder_of(policy_.path)) {
  check(policy_.keep_last >= 1, "at least one snapshot is kept");
}

std::string path_with_suffix(const std::string& path, const std::string& ending) {
  const std::size_t dot = ending_of(path);
  return path.substr(0, dot) + "-" + ending + path.substr(dot);
}

std::string SnapshotFolder::name_with(const std::string& ending) const {
  return path_with_suffix(policy_.path, ending);
}

std::string SnapshotFolder::older_name(const SnapshotStamp& stamp) const {
  return name_with("g" + std::to_string(stamp.generation) + "-s" + std::to_string(stamp.step));
}

bool SnapshotFolder::exists(const std::string& path) const {
  const auto names = files_.names(folder_);
  return std::find(names.begin(), names.end(), path.substr(path.rfind('/') + 1)) != names.end();
}

std::vector<SnapshotFolder::Older> SnapshotFolder::older() const {
  const std::size_t name = policy_.path.rfind('/') + 1, dot = ending_of(policy_.path);
  const std::string begin = policy_.path.substr(name, dot - name) + "-g", end = policy_.path.substr(dot);
  std::vector<Older> result;
  for (const std::string& file : files_.names(folder_)) {
    std::string_view rest = file;
    if (!consume(rest, begin)) continue;
    const auto generation = consume_number(rest);
    if (!generation || !consume(rest, "-s")) continue;
    const auto step = consume_number(rest);
    if (step && rest == end) result.push_back({policy_.path.substr(0, name) + file, *generation, *step});
  }
  std::sort(result.begin(), result.end(), [](const Older& a, const Older& b) {
    return std::tie(a.generation, a.step) > std::tie(b.generation, b.step);
  });
  return result;
}

// Otherwise the next write would keep it as an older one, in place of a good one.
void SnapshotFolder::set_aside(const std::string& path, const std::string& why, const Warn& warn) {
  const std::string aside = path + ".damaged";
  try {
    files_.rename(path, aside);
    warn(why + " It is skipped and kept as " + aside + ".");
  } catch (const std::system_error&) {
    warn(why + " It is skipped.");
  }
}

// A temporary lack of memory or a disk error is no reason to start from scratch: only bad files are skipped.
std::optional<std::string> SnapshotFolder::read(const std::string& path) const {
  try {
    return files_.read(path);
  } catch (const std::bad_alloc&) {
    throw Error("cannot read the snapshot " + path, "there is too little memory for it", "The file is left as it is.");
  } catch (const std::system_error& error) {
    throw Error("cannot read the snapshot " + path, error.code().message());
  }
}

std::optional<SnapshotFolder::Found> SnapshotFolder::try_read(const std::string& path, const Verify& verify,
                                                              const Warn& warn) {
  auto bytes = read(path);
  if (!bytes) return std::nullopt;
  try {
    const SnapshotStamp stamp = verify(*bytes, "the snapshot " + path);
    return Found{path, std::move(*bytes), stamp};
  } catch (const DamagedFile& error) {
    set_aside(path, error.what(), warn);
  }
  return std::nullopt;
}

std::optional<SnapshotFolder::Found> SnapshotFolder::find(const Verify& verify, const Warn& warn) {
  auto found = try_read(policy_.path, verify, warn);
  if (found) newest_ = found->stamp;
  for (const Older& candidate : older()) {
    if (found) break;
    found = try_read(candidate.path, verify, warn);
  }
  if (found && policy_.best == BestMetric::none) return found;
  auto best = try_read(name_with("best"), verify, warn);
  if (best) best_metric_ = best->stamp.metric;
  return found ? std::move(found) : std::move(best);
}

std::string SnapshotFolder::identities() const {
  const std::string newest = files_.identity(policy_.path);
  return policy_.best == BestMetric::none ? newest : newest + "\n" + files_.identity(name_with("best"));
}

SnapshotFolder::Known SnapshotFolder::known() const {
  try {
    return {newest_, best_metric_, identities()};
  } catch (const std::system_error&) {
    return {};
  }
}

bool SnapshotFolder::take(const Known& known) {
  try {
    if (known.newest.has_value() == files_.identity(policy_.path).empty() || known.identities != identities())
      return false;
  } catch (const std::system_error&) {
    return false;  // find() says it
  }
  newest_ = known.newest;
  best_metric_ = known.best_metric;
  return true;
}

bool SnapshotFolder::retire() {
  try {
    const auto before = older();
    const bool is_there = exists(policy_.path);
    if (is_there || !before.empty())
      files_.rename(is_there ? policy_.path : before.front().path, policy_.path + ".old");
    for (const Older& file : before) files_.remove(file.path);
    if (policy_.best != BestMetric::none) files_.remove(name_with("best"));
    files_.sync_folder(folder_);
    newest_.reset();
    best_metric_.reset();
    return is_there || !before.empty();
  } catch (const std::system_error& error) {
    throw unwritable(policy_.path, error);
  }
}

// Ignores garbage: the snapshots' own generations are known, too.
std::int64_t SnapshotFolder::fence() const {
  const auto text = read(policy_.path + ".generation");
  if (!text) return 0;
  std::string_view rest = *text;
  return consume_number(rest).value_or(0);
}

std::int64_t SnapshotFolder::last_generation() const {
  const auto before = older();
  return std::max(
      {fence(), newest_ ? newest_->generation : 0, before.empty() ? std::int64_t{0} : before.front().generation});
}

void SnapshotFolder::begin(std::int64_t generation) {
  try {
    generation_ = generation;
    const std::string partial = policy_.path.substr(policy_.path.rfind('/') + 1) + ".writing.";
    for (const std::string& name : files_.names(folder_))
      if (name.starts_with(partial)) files_.remove(folder_ + "/" + name);
    write_and_rename(files_, policy_.path + ".generation", temporary_name(policy_.path),
                     std::to_string(generation) + "\n");
    files_.sync_folder(folder_);
    if (newest_) keep_as_best(*newest_);  // an earlier process was killed before it could
  } catch (const std::system_error& error) {
    throw unwritable(policy_.path, error);
  }
}

void SnapshotFolder::claim(const std::string& mark) {
  const std::string path = policy_.path + ".writing.claim";
  try {
    write_and_rename(files_, path, path + "." + mark, mark);
  } catch (const std::system_error& error) {
    throw unwritable(policy_.path, error);
  }
}

std::string SnapshotFolder::claimed_by() const { return read(policy_.path + ".writing.claim").value_or(""); }

bool SnapshotFolder::is_better(double metric, double than) const {
  return policy_.best == BestMetric::highest ? metric > than : metric < than;
}

void SnapshotFolder::set_known_best(std::optional<double> metric) {
  if (is_best(metric)) best_metric_ = metric;
}

void SnapshotFolder::check_writable() const {
  try {
    files_.check_writable(folder_);
  } catch (const std::system_error& error) {
    const Refusal refusal = refusal_of(policy_.path, error.code().value());
    if (!refusal.of_name) throw unwritable(policy_.path, error);
    throw UsageError("cannot write the snapshot " + policy_.path, refusal.why, refusal.remedy);
  }
}

void SnapshotFolder::write_temporary(const std::string& path, const Produce& produce) {
  const auto file = files_.create(path);
  produce(*file);
  file->sync();
}

void SnapshotFolder::rename_to_newest(const std::string& temporary, const SnapshotStamp& stamp) {
  if (policy_.keep_last > 1 && exists(policy_.path)) {
    // An unknown file was put there by a person during the run.
    const std::string older = newest_ ? older_name(*newest_) : policy_.path + ".old";
    files_.remove(older);
    if (!files_.link(policy_.path, older)) files_.rename(policy_.path, older);
  }
  files_.rename(temporary, policy_.path);
  newest_ = stamp;
  files_.sync_folder(folder_);
}

bool SnapshotFolder::is_best(const std::optional<double>& metric) const {
  if (policy_.best == BestMetric::none || !metric || std::isnan(*metric)) return false;
  if (!best_metric_ || std::isnan(*best_metric_)) return true;
  return is_better(*metric, *best_metric_);
}

void SnapshotFolder::copy(const std::string& from, const std::string& to) {
  const auto bytes = read(from);
  write_temporary(to, [&](NewFile& file) {
    if (bytes) file.append(bytes->data(), bytes->size());
  });
}

void SnapshotFolder::keep_as_best(const SnapshotStamp& stamp) {
  if (!is_best(stamp.metric)) return;
  const std::string link = temporary_name(policy_.path);
  try {
    if (!files_.link(policy_.path, link)) copy(policy_.path, link);
    files_.rename(link, name_with("best"));
  } catch (const std::system_error&) {
    remove_if_possible(files_, link);
    throw;
  }
  files_.sync_folder(folder_);
  best_metric_ = stamp.metric;
}

void SnapshotFolder::remove_surplus() {
  const auto before = older();
  for (std::size_t i = static_cast<std::size_t>(policy_.keep_last) - 1; i < before.size(); ++i)
    files_.remove(before[i].path);
}

void SnapshotFolder::write(const SnapshotStamp& stamp, const Produce& produce) {
  const std::string partial = temporary_name(policy_.path);
  try {
    write_temporary(partial, produce);
    if (fence() > generation_)
      throw Error("cannot write the snapshot " + policy_.path,
                  "generation " + std::to_string(fence()) + " has begun there, and this is generation " +
                      std::to_string(generation_),
                  "Give each run a place of its own.");
    rename_to_newest(partial, stamp);
    keep_as_best(stamp);
    remove_surplus();
  } catch (const std::system_error& error) {
    remove_if_possible(files_, partial);
    throw unwritable(policy_.path, error);
  } catch (const Error&) {
    remove_if_possible(files_, partial);
    throw;
  }
}

}  // namespace ddprun
