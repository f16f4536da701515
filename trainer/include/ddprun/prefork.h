// Workers that are forked from a loaded template, by `ddprun --prefork`.
#pragma once

#pragma GCC visibility push(default)
namespace ddprun {

// Call it at the top of main:
//
//   int main(int argc, char** argv) {
//     ddprun::prefork(argc, argv);
//
// Under `ddprun --prefork` one process of the program waits in it, with its libraries loaded. It returns in workers,
// which are forked from it, with their own arguments, environment and standard streams; in any other process it returns
// at once. Before it there must be no thread, open GPU or listening socket, and no parallel operation of a tensor: a
// fork loses them. Call it in the main thread.
void prefork(int& argc, char**& argv);

}  // namespace ddprun
#pragma GCC visibility pop
