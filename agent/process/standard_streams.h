// The descriptors 0, 1 and 2, which every program expects to be open.
#pragma once

namespace ddprun::agent {

// Opens /dev/null for each that is closed, as by `2>&-` in a shell. Call it before anything is opened: else another
// file would get the number, and would be read as stdin or written to as stdout.
void open_missing_standard_streams();

}  // namespace ddprun::agent
