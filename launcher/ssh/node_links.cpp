#include "launcher/ssh/node_links.h"

#include <algorithm>

#include <asio/post.hpp>

#include "launcher/ssh/ssh_command.h"
#include "launcher/ssh/tree.h"

namespace ddprun::launcher {

NodeLinks::NodeLinks(asio::io_context& io, HostJobOrder order, std::string version, std::string own_name,
                     Listener listener)
    : io_(io),
      order_(std::move(order)),
      version_(std::move(version)),
      own_name_(std::move(own_name)),
      listener_(std::move(listener)),
      second_(io) {}

void NodeLinks::start() {
  std::vector<JobHost> others;
  for (const JobHost& host : order_.hosts) {
    if (!own_name_.empty() && is_this_machine(host.name, own_name_))
      add({host});
    else
      others.push_back(host);
  }
  add_branches(others);
  tick();
}

void NodeLinks::add_branches(const std::vector<JobHost>& hosts) {
  for (const Branch& branch : branches(hosts.size(), static_cast<std::size_t>(order_.fan_out))) {
    const auto first = hosts.begin() + static_cast<std::ptrdiff_t>(branch.first);
    add({first, first + static_cast<std::ptrdiff_t>(branch.size)});
  }
}

void NodeLinks::add(std::vector<JobHost> hosts) {
  const std::string name = hosts.front().name;
  const bool here = !own_name_.empty() && is_this_machine(name, own_name_);
  std::vector<std::string> command =
      here ? std::vector<std::string>{order_.ddprun, kNodeCommand} : ssh_command(order_.ssh, name, order_.ddprun);
  HostJobOrder order = order_;
  order.hosts = std::move(hosts);
  const std::size_t number = links_.size();
  links_.push_back(std::make_unique<NodeLink>(
      io_, std::move(order), std::move(command), version_,
      NodeLink::Listener{listener_.on_message,
                         [this, number] { asio::post(io_, [this, number] { on_closed(*links_[number]); }); },
                         listener_.may_read}));
  links_.back()->start();
}

void NodeLinks::on_closed(const NodeLink& link) {
  if (closing_) return;
  const std::vector<JobHost> behind = link.unreached();
  if (!behind.empty()) return add(behind);
  if (all_closed()) listener_.on_all_closed();
}

void NodeLinks::tick() {
  if (closing_) return;
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i]->on_second(Clock::now());
  second_.expires_after(kContactPause);
  second_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) tick();
  });
}

void NodeLinks::send(const DownMessage& message) {
  for (const auto& link : links_) link->send(message);
}

void NodeLinks::resume() {
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i]->resume();
}

void NodeLinks::close() {
  closing_ = true;
  second_.cancel();
  for (const auto& link : links_) link->close();
}

bool NodeLinks::all_closed() const {
  return std::ranges::all_of(links_, [](const auto& link) { return link->closed(); });
}

}  // namespace ddprun::launcher
