"""Says what a PNG shows: width, height, how many colours, and the share of pixels that are not the ground."""
import sys

from PIL import Image

image = Image.open(sys.argv[1]).convert("RGB")
colours = dict((colour, count) for count, colour in image.getcolors(1 << 24))
drawn = 1 - colours.get((255, 255, 255), 0) / (image.width * image.height)
print(image.width, image.height, len(colours), f"{drawn:.3f}")
