// Who may read what: with a token, only who shows it. Without one, who names this machine. Pure.
#pragma once
#include <optional>
#include <string>

#include "agent/http/http_request.h"
#include "agent/http/http_response.h"
#include "rendezvous/peer/token.h"

namespace ddprun::agent {

// The refusal of a request that does not show the token, "Authorization: Bearer <token>" (RFC 6750, 2.1); empty: it
// does. Takes the same time wherever the tokens differ.
//
// Without a token, and without TLS, whose certificate says so, too, the Host header has to be an address, localhost or
// `own_name`, what gethostname() says, also without its domain. A web page may let a name of its own stand for
// 127.0.0.1 (DNS rebinding), and a browser would then let it read what is answered. Other names without a dot are no
// better: a resolver's search list, LLMNR or the services of a cluster let others give them an address.
std::optional<HttpResponse> refusal_of(const HttpRequest& request, const std::optional<rendezvous::Token>& token,
                                       const std::string& own_name, bool by_tls = false);

}  // namespace ddprun::agent
