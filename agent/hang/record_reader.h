// Reads the workers' records of their collectives through the sockets that they have opened (_record.py).
//
// A worker answers while its main thread hangs or holds Python's lock, as PyTorch has a thread of its own for that. For
// the thread of the io_context; what is slow is done in another one.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/collective_record.h"

namespace ddprun::agent {

class RecordReader {
 public:
  using Records = std::map<int, rendezvous::CollectiveRecord>;  // by local rank: of those that have answered
  using OnRead = std::function<void(Records)>;
  explicit RecordReader(asio::io_context& io) : io_(io) {}
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // `paths`: by local rank; <path>.sock is the socket. One at a time. `on_read` is called by the loop, soon after
  // `limit` at the latest, and not after our end. False: no thread could be had, and it is not called.
  bool read(std::map<int, std::string> paths, Duration limit, OnRead on_read);
  bool busy() const { return static_cast<bool>(on_read_); }

 private:
  struct Owner;  // us, as the thread sees us
  asio::io_context& io_;
  std::shared_ptr<Owner> owner_;
  OnRead on_read_;
};

// Whether the worker has opened its socket, and whether it has process groups of PyTorch's in Python.
bool has_record(const std::string& path);
bool has_groups(const std::string& path);

}  // namespace ddprun::agent
