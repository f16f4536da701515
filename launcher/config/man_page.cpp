#include "launcher/config/man_page.h"

#include "launcher/config/options.h"
#include "launcher/settings/help.h"
#include "rendezvous/base/version.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kDescription = R"(.SH DESCRIPTION
.B ddprun
starts the workers of a distributed training job on this machine, sets each one's ranks and addresses in its
environment
(RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the rest of torchrun's variables), gives them a store to
meet in that speaks the protocol of PyTorch's TCPStore, and restarts the group when one of them dies.
It takes torchrun's command line and environment as they are.
.PP
.I PROGRAM
with a slash is a path; without one it is a file here that ends in .py or has no run permission, else a name in PATH,
else a name beside ddprun itself.
A .py file, a file without run permission, or a folder with __main__.py is given to
.IR "$PYTHON_EXEC \-u" ;
anything else is exec'd. A file without run permission whose first line is for a shell is refused.
Where PYTHON_EXEC is not set, the Python is that of the active virtual or conda environment, else of the one in whose bin
folder ddprun was called, else the first python3 in PATH.
Every word after it is the program's own; in each of them ${local_rank} is replaced.
)";

constexpr const char* kHowToWrite = R"(.SH OPTIONS
A value follows after a space or an equals sign.
Dashes and underscores mean the same; a name may be shortened as long as it is unambiguous; the last of a repeated
option counts;
.B \-\-
ends the options.
A
.I TIME
is seconds (25, 2.5) or has a unit: 500ms, 90s, 15m, 2h, 1d.
Every option \-\-some\-name is also PET_SOME_NAME in the environment (flags: 1 or 0) and some\-name in a configuration
file.
The command line overrides the environment, the environment overrides the file, the file overrides what a scheduler's
variables say (\-\-scheduler).
)";

constexpr const char* kFile = R"(.SH CONFIGURATION FILE
The TOML file of
.B \-\-config
holds options by their names, the program where the command line names none, and further variables for the workers:
.PP
.EX
nproc\-per\-node = 4
stop\-grace = "2m"
local\-ranks\-filter = [0, 1]
program = ["train", "\-\-lr", "0.1"]
[env]
NCCL_DEBUG = "INFO"
[[rules]]
class = "crash"
stderr = 'NCCL error'
action = "requeue"
[[metrics]]
name = "loss"
regex = 'loss (\\S+)'
.EE
.PP
Rules say what is done about a failure, in order; the first one that matches wins.
Conditions: class, exit\-code, signal, stderr (a regular expression for its last lines); or, of workers that run, line with
value and for, or silent.
Actions: restart, restart\-elsewhere, requeue, stop.
Metrics are numbers in rank 0's output, by a regular expression's first group: they become events.
)";

constexpr const char* kEnd = R"(.SH ENVIRONMENT
.TP
.B PET_<OPTION>
stands for an option; an empty one sets nothing.
.TP
.B DDPRUN_TOKEN
the token itself, where
.B \-\-token\-file
names none.
Workers do not inherit it.
.TP
.B PYTHON_EXEC
the Python that runs scripts.
.TP
.B LOGLEVEL
INFO or DEBUG: as
.BR \-\-verbose .
.TP
.B TORCH_ELASTIC_SHUTDOWN_TIMEOUT
as
.BR \-\-stop\-grace .
.TP
.B TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE
as
.BR \-\-log\-prefix .
.TP
.B TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT
a worker that has been in uninterruptible sleep (state D) for this many seconds ends the job as a failure; off if not
set.
.TP
.B DDPRUN_END_FILE
a file that ddprun writes as its last act: one line of JSON with the exit code, the sentence and the first failure.
.TP
.B DDPRUN_STARTED_BY
the pid of the program that started ddprun and tells its user how the job ended: ddprun dies with it, and prints no report.
.TP
.B CUDA_VISIBLE_DEVICES
the GPUs that count for \-\-nproc\-per\-node=gpu and auto.
.TP
.B NO_COLOR
no colours on the console.
.SH EXIT STATUS
.TP
.B 0
success
.TP
.B 1
a worker failed, and no restart was left
.TP
.B 2
usage error of ddprun: an invalid option, or a program or folder that cannot be used
.TP
.B 69
no port for the store or the coordinator, too few nodes within the time limit, or this node cannot join
.TP
.B 70
an internal error
.TP
.B 73
a worker exited with 73: its work is done, but part of the output could not be written; do not start it again
.TP
.B 75
start it again: preempted, and nothing is lost (every rank reported a snapshot of all its work, or none had done a
step); or too few nodes were left; or a rule says requeue.
.B \-\-exit\-on\-preempt
sets 75 or 143 for every preemption
.TP
.B 93
do not start it again: the program's usage error (exit code 2 before any progress), the same failure in three starts in
a row (\-\-state\-dir), or a rule that says stop
.TP
.B 128+N
interrupted by signal N: steps since the last snapshot are lost, or the program reports none
.SH EXAMPLES
.EX
ddprun \-\-nproc\-per\-node=4 train
ddprun \-\-nproc\-per\-node=gpu your_script.py \-\-lr 0.1
ddprun \-\-config job.toml \-\-max\-restarts=10 \-\-dry\-run
.EE
)";

}  // namespace

std::string man_page() {
  std::string out = std::string(".TH DDPRUN 1 \"\" \"ddprun ") + version() + "\" \"User Commands\"\n" +
                    ".SH NAME\nddprun \\- launcher and elastic agent for distributed training\n"
                    ".SH SYNOPSIS\n.B ddprun\n[\\fIoptions\\fR] \\fIPROGRAM\\fR [\\fIarguments\\fR...]\n.br\n.B ddprun "
                    "stacks\n[\\fIJOB\\fR]\n.br\n.B ddprun ctl\n[\\fIJOB\\fR] \\fIACT\\fR\n.br\n.B ddprun "
                    "report\n\\fIEVENTS\\fR\n.br\n.B ddprun "
                    "run\n\\fIFILE\\fR\n.br\n.B ddprun submit\n[\\fB\\-\\-to\\fR "
                    "\\fIPLACE\\fR] \\fIFILE\\fR\n.br\n.B ddprun\nstatus|top|describe|log|cancel|list [\\fIJOB\\fR]\n" +
                    kDescription + kHowToWrite;
  return out + settings::manual_entries(options()) + kFile + kEnd;
}

}  // namespace ddprun::launcher
