#include "agent/stacks/symbol_index.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>

namespace ddprun::agent {
namespace {

constexpr int kNestedMax = 16;  // symbols that may lie between a function's begin and an address in it

bool is_code(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

}  // namespace

SymbolIndex::SymbolIndex(Dwfl_Module* module) {
  GElf_Addr begin = 0;
  dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
  const int count = dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) add(module, i, begin);
  std::sort(symbols_.begin(), symbols_.end(),
            [](const Symbol& a, const Symbol& b) { return std::tie(a.begin, a.size) < std::tie(b.begin, b.size); });
}

// The names themselves are not read here: in LibTorch they are 60 MB.
void SymbolIndex::add(Dwfl_Module* module, int index, GElf_Addr module_begin) {
  GElf_Sym symbol;
  GElf_Addr address = 0;
  GElf_Word section = 0;
  const char* const name = dwfl_module_getsym_info(module, index, &symbol, &address, &section, nullptr, nullptr);
  if (!name || !is_code(symbol) || address < module_begin) return;
  symbols_.push_back({address - module_begin, symbol.st_size, name, GELF_ST_TYPE(symbol.st_info) != STT_NOTYPE,
                      GELF_ST_BIND(symbol.st_info) == STB_LOCAL});
}

// Of several names of one address, functions win, then those that others may use, then those without underscores.
int SymbolIndex::rank(const Symbol& symbol) {
  const bool is_mangled = std::strncmp(symbol.name, "_Z", 2) == 0;
  const int underscores = is_mangled ? 0 : static_cast<int>(std::min<std::size_t>(std::strspn(symbol.name, "_"), 9));
  return (symbol.is_function ? 100 : 0) + (symbol.is_local ? 0 : 10) - underscores;
}

// A symbol without a size, as in assembly, reaches to the next one.
const char* SymbolIndex::find(std::uint64_t offset) const {
  auto next = std::upper_bound(symbols_.begin(), symbols_.end(), offset,
                               [](std::uint64_t place, const Symbol& symbol) { return place < symbol.begin; });
  const Symbol* best = nullptr;
  const std::uint64_t last_begin = next == symbols_.begin() ? 0 : std::prev(next)->begin;
  for (int i = 0; i < kNestedMax && next != symbols_.begin(); ++i) {
    --next;
    if (best && next->begin != best->begin) break;
    const bool holds = offset < next->begin + next->size || (next->size == 0 && next->begin == last_begin);
    if (holds && (!best || rank(*next) > rank(*best))) best = &*next;
  }
  return best && *best->name ? best->name : nullptr;
}

}  // namespace ddprun::agent
