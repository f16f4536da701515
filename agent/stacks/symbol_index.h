// The functions of one program or library, sorted by address. Only in the module libddprun_stacks.so.
//
// dwfl_module_addrinfo() reads the whole table for each address: 2 ms for LibTorch's 300,000 symbols.
#pragma once
#include <elfutils/libdwfl.h>

#include <cstdint>
#include <vector>

namespace ddprun::agent {

class SymbolIndex {
 public:
  // The names stay libdwfl's: the module's Dwfl must outlive the index.
  explicit SymbolIndex(Dwfl_Module* module);
  // The function at `offset` from the module's begin; nullptr: unknown.
  const char* find(std::uint64_t offset) const;

 private:
  struct Symbol {
    std::uint64_t begin, size;
    const char* name;
    bool is_function, is_local;
  };
  void add(Dwfl_Module* module, int index, GElf_Addr module_begin);

  static int rank(const Symbol& symbol);

  std::vector<Symbol> symbols_;
};

}  // namespace ddprun::agent
