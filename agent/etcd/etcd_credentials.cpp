#include "agent/etcd/etcd_credentials.h"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

// Those of `pem` that are given.
std::vector<NamedText*> texts_of(ClientPem& pem) {
  std::vector<NamedText*> out;
  for (auto* text : {&pem.authority, &pem.certificate, &pem.key})
    if (*text) out.push_back(&**text);
  return out;
}

// Not what a shell has for <(COMMAND), which can be read once.
bool may_be_renewed(const std::string& file) {
  return !file.empty() && !file.starts_with("/dev/fd/") && !file.starts_with("/proc/");
}

}  // namespace

std::string password_in(const std::string& text) {
  const std::string line = text.substr(0, text.find_last_not_of("\r\n") + 1);
  return line.find('\n') == line.npos ? line : "";
}

EtcdCredentials::EtcdCredentials(const EtcdAccess& access, const Say& say)
    : host_(access.members.front().host),
      password_(access.password.text),
      pem_(access.pem),
      thread_(say, {.last_write_limit = Duration::zero()}) {
  const auto renew = [&](const char* what, std::vector<std::string> files, RenewedFiles::Use use, auto& renewed) {
    if (!files.empty() && std::all_of(files.begin(), files.end(), may_be_renewed))
      renewed.emplace(RenewedFiles::Options{.what = what, .files = std::move(files), .said_after = 1}, thread_,
                      std::move(use), say);
  };
  const auto use_password = [this](const std::vector<std::string>& texts) -> std::string {
    const std::string read = password_in(texts.front());
    if (read.empty()) return "its file does not hold one line";
    password_ = read;
    return {};
  };
  renew("password for etcd", {access.password.name}, use_password, password_file_);
  std::vector<std::string> files;
  for (const NamedText* text : texts_of(pem_)) files.push_back(text->name);
  renew(
      "certificate for etcd", files, [this](const auto& texts) { return use_pem(texts); }, pem_files_);
}

const std::string& EtcdCredentials::password() {
  if (password_file_) password_file_->check();
  return password_;
}

OpenTls EtcdCredentials::tls_to(const std::string& host) {
  return [this, host] {
    if (pem_files_) pem_files_->check();
    return https_client(host, pem_)();
  };
}

std::string EtcdCredentials::use_pem(const std::vector<std::string>& texts) {
  ClientPem renewed = pem_;
  auto text = texts.begin();
  for (NamedText* one : texts_of(renewed)) one->text = *text++;
  std::string why = https_problem(host_, renewed);
  if (why.empty()) pem_ = std::move(renewed);
  return why;
}

}  // namespace ddprun::agent
