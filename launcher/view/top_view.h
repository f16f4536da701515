// What `ddprun top` shows: a tree of nodes and ranks, of a terminal's size. A value: keys and answers go in, lines come
// out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/view/keys.h"
#include "launcher/view/styled_line.h"
#include "launcher/view/time_shares.h"
#include "launcher/view/top_charts.h"

namespace ddprun::launcher {

struct Size {
  std::size_t rows = 24, columns = 80;
};

class TopView {
 public:
  // `unicode`: the terminal shows blocks.
  explicit TopView(bool unicode = false) : unicode_(unicode) {}
  // `live`: an agent's answer (agent/status/status_json.h), `seconds`: on any clock that does not go back. An answer
  // without ranks keeps what was known of them out: nothing old is shown as if it were new.
  void take(nlohmann::json live, double seconds);
  // Why there is no newer answer, in the place of the job's state; empty: there is.
  void set_problem(std::string problem) { problem_ = std::move(problem); }
  // Shown instead of the tree until Escape.
  void show_text(const std::string& title, const std::string& text);

  enum class Wish { nothing, quit, stacks, drain };
  Wish on(Key key, Size size);

  // `size.rows` lines of at most `size.columns` characters. `selected`: the line that the cursor is on, from 0.
  struct Frame {
    std::vector<StyledLine> lines = {};
    std::optional<std::size_t> selected = {};
  };
  Frame frame(Size size) const;
  // Whether a frame of that size shows curves and events, which an answer has on request alone.
  static bool shows_history(Size size);
  // All of it without colours, for where there is no terminal.
  std::string plain() const;
  // The selected rank; empty: a node is, or nothing.
  std::optional<int> selected_rank() const;
  // Of Wish::drain, which the user has confirmed: its name, and what `ddprun ctl drain` takes.
  struct DrainedNode {
    std::string name = {}, argument = {};
  };
  const DrainedNode& drained_node() const { return drained_; }

 private:
  enum class Order { trouble, rank, lag, memory, share };
  struct Node {
    std::string key = {};  // the same in all answers of a round
    std::string name = {}, state = {}, reason = {};
    int group_rank = -1;  // -1: it has no ranks
  };
  struct Row {
    Node node = {};
    const nlohmann::json* rank = nullptr;  // null: the node's own row
  };
  void ask_about_drain();
  std::vector<Node> nodes() const;
  std::vector<Row> rows() const;
  std::vector<const nlohmann::json*> ranks_of(const Node& node) const;
  bool is_closed(const Node& node) const;
  const std::string& trouble_of(const nlohmann::json& rank) const;
  StyledLine line_of(const Row& row, std::size_t columns) const;
  struct Together {  // of some ranks
    double memory = 0, age = 0;
    std::optional<std::int64_t> step = {};
    std::optional<TimeShare> share = {};
  };
  Together together(const std::vector<const nlohmann::json*>& ranks) const;
  StyledLine node_name(const Node& node, std::size_t ranks, std::size_t room) const;
  StyledLine node_trouble(const std::vector<const nlohmann::json*>& ranks, std::size_t room) const;
  StyledLine node_line(const Node& node, std::size_t columns) const;
  static StyledLine with_bar(StyledLine line, const std::optional<TimeShare>& share, bool expected);
  StyledLine rank_line(const nlohmann::json& rank, std::size_t columns) const;
  std::vector<StyledLine> head(Size size) const;
  StyledLine keys_line() const;
  void select(const Row& row);
  std::size_t body_rows(Size size) const;
  std::size_t line_count() const;
  void move(long by, Size size);

  nlohmann::json live_ = {};
  std::string problem_ = {};
  bool unicode_ = false;
  TimeShares shares_ = {};
  SeenPoints seen_ = {};
  std::map<int, std::string> troubles_ = {};  // by rank
  std::map<int, int> worst_ = {};             // trouble_order() by group rank
  std::size_t names_width_ = 0;               // of the nodes with ranks
  std::int64_t last_step_ = 0;                // of the rank that has done most
  Order order_ = Order::trouble;
  std::set<std::string> toggled_ = {};  // keys of nodes that were opened or closed
  std::size_t selected_ = 0;            // of rows()
  std::vector<std::string> text_ = {};  // of show_text()
  std::size_t text_top_ = 0;
  bool shows_text_ = false;
  DrainedNode drained_ = {};
  bool asks_about_drain_ = false;
};

}  // namespace ddprun::launcher
