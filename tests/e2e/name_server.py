"""A name server on port 53 that takes every question in silence."""
import socket

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 53))
print("serves", flush=True)
while True:
    server.recvfrom(512)
