#include "agent/round/keeper_death.h"

#include <unistd.h>

#include <utility>

#include "agent/process/children.h"
#include "agent/process/keeper.h"
#include "agent/process/keeper_watch.h"
#include "rendezvous/base/handler_time.h"

namespace ddprun::agent {

void KeeperDeath::on_death(std::function<void()> clean_up) {
  keeper_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [clean_up = std::move(clean_up)](const asio::error_code& error) {
                       if (error) return;
                       const MayWait for_our_children;
                       main_has_noticed_keeper_death();
                       end_all_children(kEndLimit);
                       clean_up();
                       _exit(kKeeperDied);
                     });
}

}  // namespace ddprun::agent
