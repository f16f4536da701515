"""What Python makes of the same data: data_peer_test.cpp gives it lines on stdin and compares what it prints.

  augment <c> <h> <w> <padding> <top> <left> <flipped> <mean,...> <std,...>
      CRC-32 of torchvision's image: RandomCrop at these offsets, RandomHorizontalFlip, ToTensor, Normalize ("-": no Normalize).
      The image's byte i is (1 + 7 i) % 256.
  text <file> <context> <stride>
      The vocabulary's size and CRC-32, and CRC-32 of all inputs and all targets (int64) of the part to train on, then to test on.
  utf8 <hexadecimal bytes>
      The offset at which they are no UTF-8, or "ok <their characters>".
"""
import sys
import zlib


def crc(tensor):
    return f"{zlib.crc32(tensor.contiguous().numpy().tobytes()):08x}"


def augment(c, h, w, padding, top, left, flipped, mean, std):
    import torch
    from torchvision.transforms import functional as F

    c, h, w, padding, top, left = map(int, (c, h, w, padding, top, left))
    image = (1 + 7 * torch.arange(c * h * w)).remainder(256).to(torch.uint8).view(c, h, w)
    image = F.crop(F.pad(image, padding), top, left, h, w)
    if flipped == "1":
        image = F.hflip(image)
    image = image.float().div(255)  # what ToTensor does with bytes
    if mean != "-":
        image = F.normalize(image, *[[float(x) for x in values.split(",")] for values in (mean, std)])
    print(crc(image))


def text(path, context, stride):
    import torch

    context, stride = int(context), int(stride)
    with open(path, "rb") as file:
        characters = file.read().decode("utf-8")
    vocabulary = sorted(set(characters))
    print(len(vocabulary), f"{zlib.crc32(''.join(vocabulary).encode()):08x}")
    ids = {character: i for i, character in enumerate(vocabulary)}
    data = torch.tensor([ids[character] for character in characters])
    cut = len(data) * 9 // 10
    for part in (data[:cut], data[cut:]):
        starts = range(0, len(part) - context, stride)
        inputs = torch.stack([part[i : i + context] for i in starts])
        targets = torch.stack([part[i + 1 : i + 1 + context] for i in starts])
        print(len(inputs), crc(inputs), crc(targets))


def utf8(text=""):
    try:
        print("ok", *map(ord, bytes.fromhex(text).decode("utf-8")))
    except UnicodeDecodeError as error:
        print(error.start)


for line in sys.stdin:
    what, *arguments = line.split()
    {"augment": augment, "text": text, "utf8": utf8}[what](*arguments)
