"""Reads a folder of event files as TensorBoard does: one line "tag step value" per scalar, in its order."""
import sys

from tensorboard.backend.event_processing import event_accumulator

accumulator = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.SCALARS: 0})
accumulator.Reload()
for tag in sorted(accumulator.Tags()["scalars"]):
    for event in accumulator.Scalars(tag):
        print(tag, event.step, f"{event.value:.6g}", f"{event.wall_time:.1f}")
