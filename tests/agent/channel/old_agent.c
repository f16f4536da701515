/* What an agent that was built before there were beats reads in a worker's page. */
#include "tests/agent/channel/old_worker_channel.h"

size_t old_page_bytes(void) { return sizeof(struct ddprun_channel_page); }

/* 0 if the worker has reported no phase. */
uint64_t old_agent_reads_phase(const void* page) {
  struct ddprun_channel_record record;
  return ddprun_channel_read_(&((const struct ddprun_channel_page*)page)->phase, &record) ? record.first : 0;
}

uint64_t old_agent_reads_step(const void* page) {
  struct ddprun_channel_record record;
  return ddprun_channel_read_(&((const struct ddprun_channel_page*)page)->step, &record) ? record.first : 0;
}
