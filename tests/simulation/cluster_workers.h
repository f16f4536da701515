// The workers of a node of a simulated job: when they start, fail, hang and end, and how those of a round meet at the
// store of its first node before they train: as a stock program does, over the same simulated network. A node's workers
// share one connection and one arrival, so that a thousand nodes are cheap.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/protocol.h"
#include "rendezvous/store/store.h"
#include "tests/simulation/cluster_checks.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

class ClusterWorkers {
 public:
  explicit ClusterWorkers(ClusterAgent& agent) : agent_(agent) {}
  void start(const Seat& seat);
  void signal(int number);
  void be_killed();  // by the keeper of a dead agent
  void sweep(int round);
  void train();  // once they have met the others
  void end_one(const JobRound& of_round, int local_rank, const ExitStatus& status);
  // The coordinator wants to know who hangs, or says so.
  void on_asked(const AskStandings& asked);
  void blame(const BlameWorker& blamed);
  const JobRound& round() const { return round_; }

  int fences = 0;  // while there are any, no worker is started

 private:
  void start_from(int rank, const Seat& seat, const JobRound& of_round, bool slowly);
  void keep_snapshots(const Seat& seat);
  void hang();
  void send_standings();
  bool one_hangs_here() const;

  ClusterAgent& agent_;
  JobRound round_;
  std::set<int> ignoring_sigterm_;  // local ranks
  bool starting_ = false;           // some of the round's are to be started yet
};

struct RoundStore {
  int serial = 0;
  Store keys = {};
  std::map<Network::LinkId, NodeId> clients = {};
};

// Of one node: the store of the newest round in which it was the first one, and its workers' session at their store.
class StoreSessions {
 public:
  struct Session {
    int serial = 0;
    NodeId at = 0;
    JobRound round = {};
    Seat seat = {};
    Network::LinkId link = 0;  // 0: not connected to the store yet
    int store = 0;             // its serial
    bool all_arrived = false;  // they train
    TimePoint trains_since = {};
  };

  explicit StoreSessions(ClusterAgent& agent) : agent_(agent) {}
  // Called before its seat is confirmed, so before any worker connects.
  void open_store();
  void open_session(const Seat& seat, const JobRound& round);
  // Called with the end of its last worker.
  void close_session();
  // A client that waits there sees its connection close, if reachable.
  void on_store_gone(NodeId at);
  // Some connections to stores break at a cut, the others on their next use or not at all.
  void on_cut();
  const std::optional<Session>& session() const { return session_; }

 private:
  bool waits(int serial) const;
  void connect(int serial);
  void send(const std::vector<Request>& requests);
  void carry_out(Network::LinkId client, int store, const std::vector<Request>& requests);
  void on_reply(const Reply& reply);
  void lose(const std::string& why);
  void forget(Network::LinkId client, int store);

  ClusterAgent& agent_;
  std::optional<RoundStore> store_;
  std::optional<Session> session_;
  int serials_ = 0;
};

}  // namespace ddprun::test
