// Preloaded into PyTorch's server: getnameinfo that answers with numbers. That server looks up the name of every client
// it accepts, 60 ms each where no name server knows loopback; accepting is not what the store bench measures.
#include <dlfcn.h>
#include <netdb.h>

extern "C" int getnameinfo(const sockaddr* address, socklen_t size, char* host, socklen_t host_size, char* service,
                           socklen_t service_size, int flags) {
  using GetNameInfo = int (*)(const sockaddr*, socklen_t, char*, socklen_t, char*, socklen_t, int);
  static const auto real = reinterpret_cast<GetNameInfo>(dlsym(RTLD_NEXT, "getnameinfo"));
  return real(address, size, host, host_size, service, service_size, flags | NI_NUMERICHOST | NI_NUMERICSERV);
}
