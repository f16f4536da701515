#include "launcher/print/shown_command.h"

#include "tests/support/test.h"

TEST_CASE("a command line for others has no values of keys, tokens and passwords") {
  CHECK(shown_command({"--nproc-per-node=4", "train.py", "--lr", "0.1", "--name=two words"}) ==
        "ddprun --nproc-per-node=4 train.py --lr 0.1 '--name=two words'");
  CHECK(shown_command({"t.py", "--api-key=abc", "--hf_token", "hf_x", "WANDB_API_KEY=x", "--db.password=y"}) ==
        "ddprun t.py --api-key=*** --hf_token *** WANDB_API_KEY=*** --db.password=***");
  CHECK(shown_command({"--rdzv-endpoint=u:x@e", "--rdzv-conf=user=u,password=x", "t.py", "--db=pg://u:x@h",
                       "pg://u:x@h"}) == "ddprun --rdzv-endpoint=*** --rdzv-conf=*** t.py --db=*** ***");
  CHECK(shown_command({"--hosts=me@a:2,me@b:2", "t.py", "git://me@h/x"}) ==
        "ddprun --hosts=me@a:2,me@b:2 t.py git://me@h/x");
  CHECK(shown_command({"--token-file=f", "t.py", "--tokenizer=gpt2", "--use-token", "--verbose", "x"}) ==
        "ddprun --token-file=f t.py --tokenizer=gpt2 --use-token --verbose x");
}
