"""A name server on port 53: every name has the IPv4 address that is given, and no other one.

usage: name_server.py ADDRESS DELAY     answers each question after so many seconds; "never": takes them in silence
"""
import socket
import sys
import threading
import time

address, delay = sys.argv[1:]
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 53))
print("serves", flush=True)


def answer(question, asker):
    time.sleep(float(delay))
    end = question.index(b"\0", 12) + 5  # end of the name, its type and its class
    is_a = question[end - 4 : end - 2] == b"\0\1"
    head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_a else b"\0\0") + b"\0\0\0\0"
    record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address) if is_a else b""
    server.sendto(head + question[12:end] + record, asker)


while True:
    question, asker = server.recvfrom(512)
    if delay != "never":
        threading.Thread(target=answer, args=(question, asker), daemon=True).start()
