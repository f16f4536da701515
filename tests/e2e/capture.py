"""Everything that passes a bridge, for tests of what a stranger on the network can read: capture.py FILE

Payloads of TCP are appended to FILE, each behind a line "PORT PORT LENGTH"; raw, from before the program says "ready"
until it is ended.
"""
import socket
import struct
import sys

ETH_P_ALL, SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 3, 263, 1, 1
TCP = 6


def payload(frame):
    """(source port, destination port, bytes) of a TCP segment over IPv4 or IPv6, without extension headers."""
    kind, packet = struct.unpack(">H", frame[12:14])[0], frame[14:]
    if kind == 0x0800 and packet[9] == TCP:
        packet = packet[:struct.unpack(">H", packet[2:4])[0]]
        segment = packet[(packet[0] & 15) * 4:]
    elif kind == 0x86DD and packet[6] == TCP:
        segment = packet[40:40 + struct.unpack(">H", packet[4:6])[0]]
    else:
        return None
    source, destination = struct.unpack(">HH", segment[:4])
    return source, destination, segment[(segment[12] >> 4) * 4:]


def main(file):
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    wire.bind(("br0", 0))
    wire.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP,
                    struct.pack("IHH8s", socket.if_nametoindex("br0"), PACKET_MR_PROMISC, 0, b""))
    with open(file, "wb", buffering=0) as out:
        print("ready", flush=True)
        while True:
            if (found := payload(wire.recv(1 << 17))) and found[2]:
                out.write(b"%d %d %d\n" % (found[0], found[1], len(found[2])) + found[2])


main(sys.argv[1])
