// What PyTorch answers in a worker, for tests of those who read its record of collectives.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>

namespace ddprun::test {

// A worker's server of its record of collectives, in the loop of the reader.
class RecordServer {
 public:
  RecordServer(asio::io_context& io, const std::string& path, std::string answer)
      : acceptor_(io, asio::local::stream_protocol::endpoint(path + ".sock")), answer_(std::move(answer)) {
    accept();
  }
  std::vector<std::string> asked;

 private:
  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, asio::local::stream_protocol::socket socket) {
      if (error) return;
      peers_.push_back(std::make_unique<asio::local::stream_protocol::socket>(std::move(socket)));
      asio::async_read_until(*peers_.back(), asio::dynamic_buffer(input_), "\r\n\r\n",
                             [this, &peer = *peers_.back()](const asio::error_code&, std::size_t) {
                               asked.push_back(input_.substr(0, input_.find(" HTTP")));
                               input_.clear();
                               if (answer_.empty()) return;  // it stays silent
                               const bool knows = asked.size() > 1 || !answer_.starts_with("later");
                               const std::string text =
                                   knows ? "HTTP/1.1 200 OK\r\n\r\n" + answer_.substr(answer_.find('{'))
                                         : "HTTP/1.1 404 Not Found\r\n\r\nno such handler";
                               asio::write(peer, asio::buffer(text));
                               peer.close();
                             });
      accept();
    });
  }

  asio::local::stream_protocol::acceptor acceptor_;
  std::string answer_, input_;
  std::vector<std::unique_ptr<asio::local::stream_protocol::socket>> peers_;
};

}  // namespace ddprun::test
