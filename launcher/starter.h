// The program that started ddprun and speaks for it, such as Python's ddprun.launch(): DDPRUN_STARTED_BY is its pid.
//
// If it dies, ddprun is killed, and with it the job. The end of the job is for that program to tell: ddprun writes it
// to the file that DDPRUN_END_FILE names, and not to stderr. Workers do not inherit the variable.
#pragma once

namespace ddprun::launcher {

// Whether there is one. Unsets the variable, and asks the kernel to end this process with its parent. A variable that
// some process between us has passed on does not count; if the program is dead already, this process exits. Call it
// once, before the keeper begins.
bool take_starter_variable();

}  // namespace ddprun::launcher
