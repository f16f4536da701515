"""The name that ddprun.channel had before; for scripts that import it by that."""
import sys

import ddprun.channel

sys.modules[__name__] = ddprun.channel
