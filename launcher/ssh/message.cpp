#include "launcher/ssh/message.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::launcher {
namespace {

using Json = nlohmann::json;

// No shell prints it.
constexpr std::string_view kGreetingMark =
    "\x1e"
    "ddprun-node ";

// MessagePack keeps all bytes of a path or a variable, of which JSON's text allows only UTF-8.
std::string framed_json(char letter, const Json& content) {
  std::string out(1, letter);
  Json::to_msgpack(content, out);
  return out;
}

Json json_in(std::string_view frame) { return Json::from_msgpack(frame.begin() + 1, frame.end()); }

Json json_of(const JobHost& host) {
  Json out{{"index", host.index}, {"name", host.name}};
  if (host.workers) out["workers"] = *host.workers;
  return out;
}

JobHost host_of(const Json& json) {
  JobHost host{json.at("index"), json.at("name"), {}};
  if (json.contains("workers")) host.workers = json.at("workers").get<int>();
  return host;
}

Json json_of(const HostJobOrder& order) {
  Json hosts = Json::array();
  for (const JobHost& host : order.hosts) hosts.push_back(json_of(host));
  return {{"hosts", hosts},
          {"ddprun", order.ddprun},
          {"ssh", order.ssh},
          {"fan_out", order.fan_out},
          {"folder", order.folder},
          {"environment", order.environment},
          {"token", order.token},
          {"config_name", order.config_name},
          {"config_text", order.config_text},
          {"options", order.options},
          {"program", order.program},
          {"stop_grace_ms", order.stop_grace_ms},
          {"shares_output", order.shares_output},
          {"sends_events", order.sends_events}};
}

HostJobOrder order_of(const Json& json) {
  HostJobOrder order;
  for (const Json& host : json.at("hosts")) order.hosts.push_back(host_of(host));
  json.at("ddprun").get_to(order.ddprun);
  json.at("ssh").get_to(order.ssh);
  json.at("fan_out").get_to(order.fan_out);
  json.at("folder").get_to(order.folder);
  json.at("environment").get_to(order.environment);
  json.at("token").get_to(order.token);
  json.at("config_name").get_to(order.config_name);
  json.at("config_text").get_to(order.config_text);
  json.at("options").get_to(order.options);
  json.at("program").get_to(order.program);
  json.at("stop_grace_ms").get_to(order.stop_grace_ms);
  json.at("shares_output").get_to(order.shares_output);
  json.at("sends_events").get_to(order.sends_events);
  return order;
}

StartAgents start_of(const Json& json) {
  StartAgents start;
  for (const Json& pair : json.at("ranks")) start.ranks.emplace(pair.at(0).get<int>(), pair.at(1).get<int>());
  json.at("options").get_to(start.options);
  return start;
}

// The host and the stream stand before the bytes: 4 bytes, little-endian, and 1.
constexpr std::size_t kOutputHead = 5;

std::string framed_output(const HostOutput& output) {
  std::string out = "o";
  for (int byte = 0; byte < 4; ++byte)
    out += static_cast<char>((static_cast<std::uint32_t>(output.index) >> (8 * byte)) & 0xff);
  out += static_cast<char>(output.stream);
  return out + output.bytes;
}

std::optional<UpMessage> output_of(std::string_view content) {
  if (content.size() < kOutputHead) return {};
  std::uint32_t index = 0;
  for (int byte = 0; byte < 4; ++byte)
    index |= static_cast<std::uint32_t>(static_cast<unsigned char>(content[static_cast<std::size_t>(byte)]))
             << (8 * byte);
  if (content[4] < 1 || content[4] > kEventStream) return {};
  return HostOutput{static_cast<int>(index), content[4], std::string(content.substr(kOutputHead))};
}

agent::JobEnd job_end_of(const Json& json) {
  agent::JobEnd end{json.at("exit_code"), json.at("message"), {}};
  if (const Json& failure = json.at("first_failure"); !failure.is_null())
    end.first_failure = agent::JobEnd::FirstFailure{failure.at("global_rank"), failure.at("local_rank"),
                                                    failure.at("hostname"), failure.at("exit_code")};
  return end;
}

DownMessage down_of(char letter, const Json& json) {
  switch (letter) {
    case 'j':
      return order_of(json);
    case 's':
      return start_of(json);
    case 'k':
      return SendSignal{json.at("signal")};
    default:
      throw std::invalid_argument("unknown");
  }
}

UpMessage up_of(char letter, const Json& json) {
  switch (letter) {
    case 'r':
      return HostReady{json.at("index"), json.at("address"), json.at("from"), json.at("port")};
    case 'x':
      return HostRefused{json.at("index"), json.at("why"), json.at("usage")};
    case 'e':
      return HostEnded{json.at("index"), json.at("reported"), job_end_of(json.at("end"))};
    case 'l':
      return HostLost{json.at("index"), json.at("why")};
    default:
      throw std::invalid_argument("unknown");
  }
}

}  // namespace

std::string to_line(const Greeting& greeting) {
  return std::string(kGreetingMark) + greeting.version + " " + greeting.path + "\n";
}

void GreetingReader::add(std::string_view bytes) {
  bytes_ += bytes;
  if (greeting_) return;
  const std::size_t mark = bytes_.find(kGreetingMark);
  const std::size_t end = mark == std::string::npos ? mark : bytes_.find('\n', mark);
  if (end == std::string::npos) return;
  const std::size_t start = mark + kGreetingMark.size();
  const std::string line = bytes_.substr(start, end - start);
  const std::size_t blank = line.find(' ');
  greeting_ = Greeting{line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank + 1)};
  bytes_.erase(0, end + 1);
}

std::string encode(const DownMessage& message) {
  return std::visit(overloaded{
                        [](const StillHere&) { return std::string("a"); },
                        [](const HostJobOrder& order) { return framed_json('j', json_of(order)); },
                        [](const StartAgents& start) {
                          Json ranks = Json::array();
                          for (const auto& [index, rank] : start.ranks) ranks.push_back({index, rank});
                          return framed_json('s', {{"ranks", ranks}, {"options", start.options}});
                        },
                        [](const SendSignal& send) {
                          return framed_json('k', {{"signal", send.signal}});
                        },
                    },
                    message);
}

std::string encode(const UpMessage& message) {
  return std::visit(
      overloaded{
          [](const StillHere&) { return std::string("a"); },
          [](const HostReady& ready) {
            return framed_json('r', {{"index", ready.index},
                                     {"address", ready.address},
                                     {"from", ready.reached_from},
                                     {"port", ready.free_port}});
          },
          [](const HostRefused& refused) {
            return framed_json('x', {{"index", refused.index}, {"why", refused.why}, {"usage", refused.usage}});
          },
          [](const HostOutput& output) { return framed_output(output); },
          [](const HostEnded& ended) {
            return framed_json(
                'e',
                {{"index", ended.index}, {"reported", ended.reported}, {"end", parse_json(agent::to_json(ended.end))}});
          },
          [](const HostLost& lost) {
            return framed_json('l', {{"index", lost.index}, {"why", lost.why}});
          },
      },
      message);
}

std::optional<DownMessage> decode_down(std::string_view frame) try {
  if (frame.empty()) return {};
  if (frame == "a") return StillHere{};
  return down_of(frame.front(), json_in(frame));
} catch (const std::exception&) {
  return {};
}

std::optional<UpMessage> decode_up(std::string_view frame) try {
  if (frame.empty()) return {};
  if (frame == "a") return StillHere{};
  if (frame.front() == 'o') return output_of(frame.substr(1));
  return up_of(frame.front(), json_in(frame));
} catch (const std::exception&) {
  return {};
}

std::optional<agent::JobEnd> read_job_end(const std::string& json) try {
  return job_end_of(parse_json(json));
} catch (const std::exception&) {
  return {};
}

}  // namespace ddprun::launcher
