// stuck_file_system FOLDER: a file system (FUSE) at FOLDER that answers nothing, like one whose server is gone. Whoever
// opens a path below it sleeps uninterruptibly, SIGKILL or not, until this program ends. Prints "mounted".
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

const char* folder;

int fail(const char* what) {
  std::perror(what);
  return 1;
}

// The one request without whose answer there is no mount.
void answer_init(int fd, const fuse_in_header& request) {
  struct {
    fuse_out_header header;
    fuse_init_out init;
  } answer = {};
  answer.header = {sizeof answer, 0, request.unique};
  answer.init.major = FUSE_KERNEL_VERSION;
  answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
  answer.init.max_write = 4096;
  if (write(fd, &answer, sizeof answer) < 0) std::perror("write");
}

void on_signal(int) {
  umount2(folder, MNT_DETACH);
  _exit(0);  // closing the device wakes those who sleep
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  folder = argv[1];
  const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd < 0) return fail("/dev/fuse");
  const std::string options = "fd=" + std::to_string(fd) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
  if (mount("stuck", folder, "fuse.stuck", MS_NOSUID | MS_NODEV, options.c_str())) return fail("mount");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, on_signal);
  std::vector<char> buffer(1 << 17);
  while (read(fd, buffer.data(), buffer.size()) > 0) {  // a request that was read can no longer be interrupted
    fuse_in_header request;
    std::memcpy(&request, buffer.data(), sizeof request);
    if (request.opcode != FUSE_INIT) continue;
    answer_init(fd, request);
    std::puts("mounted");
    std::fflush(stdout);
  }
  on_signal(0);
}
