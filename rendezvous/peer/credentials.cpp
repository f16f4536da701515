#include "rendezvous/peer/credentials.h"

#include <utility>

namespace ddprun::rendezvous {

PemFile::PemFile(std::string name, std::string text)
    : name_(std::move(name)), text_(new std::string(std::move(text)), [](std::string* ended) {
        wipe(*ended);
        delete ended;
      }) {}

}  // namespace ddprun::rendezvous
