"""A stranger on the network, for tests of who may join a job.

  attacker.py attack HOST PORT [NAME]    every attempt at once, or one of them; a line each: "NAME: closed, 0 bytes", or
                                         "NAME: refused" where nobody listens; bytes are the answer, TLS alerts apart
  attacker.py crowd HOST PORT COUNT      holds so many silent connections until it is ended
  attacker.py relay PORT HOST TO FILE    passes connections on, and keeps what the first one says in FILE
  attacker.py replay HOST PORT FILE      says it again: "replay: closed, N bytes", and "first answer: M bytes", the
                                         first ones of the server then
  attacker.py pose PORT                  is a server with a certificate of its own making: "heard N bytes" of each client
"""
import os
import pathlib
import select
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

MARK = b"MALLORY"  # in all that is sent: no log may contain it
WAIT = 12          # longer than the time-out for unauthenticated peers


def connect(host, port):
    return socket.create_connection((host, port), timeout=WAIT)


def answer(peer):
    """All that comes until the other side closes; None as the second where it does not."""
    end, data = time.monotonic() + WAIT, b""
    while (left := end - time.monotonic()) > 0:
        peer.settimeout(left)
        try:
            part = peer.recv(65536)
        except socket.timeout:
            break
        except OSError:  # reset
            return data, "closed"
        if not part:
            return data, "closed"
        data += part
    return data, "open"


def without_alerts(data):
    while len(data) >= 5 and data[0] == 21:
        data = data[5 + struct.unpack(">H", data[3:5])[0]:]
    return data


def say(line):
    sys.stdout.write(line + "\n")  # in one write: many threads print
    sys.stdout.flush()


def tell(name, state, data):
    say(f"{name}: {state}, {len(without_alerts(data))} bytes")


# What unauthenticated peers may send to a listener.

def text(words):
    return struct.pack("<Q", len(words)) + words


def store_requests():
    validate = b"\0" + struct.pack("<I", 0x3C85F7CE)
    ping = b"\x0d" + struct.pack("<I", 7)
    get = b"\3" + text(b"/here")
    return validate + ping + get + b"\7" + b"\x11"  # and num_keys, list_keys


def greeting():
    name = lambda words: bytes([len(words)]) + words
    return b"ddprun\1C" + b"\7" * 8 + name(b"job") + name(MARK)


def frame(message):
    return struct.pack("<I", len(message)) + message


def client_hello(context=None):
    context = context or plain_context()
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def plain_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


MESSAGES = {
    "silence": b"",
    "the store's protocol": store_requests(),
    "a plain greeting": greeting(),
    "a plain greeting and a message": greeting() + frame(b'{"type":"hello","control_port":1}'),
    "a message": frame(b'{"type":"heartbeat","number":1}'),
    "half a message": struct.pack("<I", 4 << 20) + MARK,
    "a message beyond all limits": b"\xff" * 4 + MARK,
    "garbage": os.urandom(4096) + MARK,
    "much garbage": os.urandom(1 << 20),
    "zeros": bytes(65536),
    "half a TLS hello": client_hello()[:100],
    "a TLS record that never ends": b"\x16\x03\x01\x3f\xff" + MARK,
    "web": b"GET / HTTP/1.1\r\nHost: " + MARK + b"\r\n\r\n",
}


def send_message(peer, name):
    try:
        peer.sendall(MESSAGES[name])
    except OSError:  # closed in the middle
        pass
    return answer(peer)


def send_slowly(peer):
    for byte in client_hello():
        try:
            peer.sendall(bytes([byte]))
        except OSError:
            break
        if select.select([peer], [], [], 0.1)[0]:
            break
    return answer(peer)


def shake_hands(peer, context):
    """A whole TLS handshake, as far as it goes; what came is counted by bytes of any kind, alerts apart."""
    inside, out, data = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
    session, peer_state = context.wrap_bio(inside, out), "open"
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        try:
            session.do_handshake()
            session.write(greeting())
            peer.sendall(out.read())
        except ssl.SSLWantReadError:
            peer.sendall(out.read())
        except ssl.SSLError:
            break
        part = b""
        try:
            peer.settimeout(max(0.01, end - time.monotonic()))
            part = peer.recv(65536)
        except OSError:
            pass
        if not part:
            break
        data += part
        inside.write(part)
    more, peer_state = answer(peer)
    return data + more, peer_state


def self_made(folder):
    key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", certificate, "-subj", "/CN=host0", "-days", "2"], check=True,
                   stderr=subprocess.DEVNULL)
    return certificate, key


def context_with_certificate():
    context = plain_context()
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(*self_made(folder))
    return context


def old_tls():
    context = plain_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def guess_key(host, port):
    """The right name of the key, the wrong key: python's ssl has no pre-shared keys."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    done = subprocess.run(["openssl", "s_client", "-connect", place, "-psk", "00" * 32, "-psk_identity", "ddprun/1",
                           "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-quiet"], input=greeting(),
                          capture_output=True, timeout=WAIT)
    return done.stdout, "closed" if done.returncode else "open"


ATTEMPTS = {
    **{name: (lambda host, port, name=name: send_message(connect(host, port), name)) for name in MESSAGES},
    "one byte at a time": lambda host, port: send_slowly(connect(host, port)),
    "TLS without a key": lambda host, port: shake_hands(connect(host, port), plain_context()),
    "TLS with a certificate": lambda host, port: shake_hands(connect(host, port), context_with_certificate()),
    "TLS 1.2": lambda host, port: shake_hands(connect(host, port), old_tls()),
    "TLS with a guessed key": guess_key,
}


def attempt(name, host, port):
    try:
        connect(host, port).close()
    except ConnectionRefusedError:
        say(f"{name}: refused")
        return
    data, state = ATTEMPTS[name](host, port)
    tell(name, state, data)


def attack(host, port, *names):
    threads = [threading.Thread(target=attempt, args=(name, host, port)) for name in names or ATTEMPTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(f"all {len(threads)} attempts made")


def crowd(host, port, count):
    held = [connect(host, port) for _ in range(count)]
    say(f"{len(held)} connections")
    while True:
        time.sleep(60)


def listener(port):
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)


def pass_on(source, to, kept):
    try:
        while data := source.recv(65536):
            kept.append(data)
            to.sendall(data)
    except OSError:
        pass
    for end in source, to:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def relay(port, host, to, file):
    server = listener(port)
    say("relay ready")
    while True:
        client, _ = server.accept()
        peer, said, answered = connect(host, to), [], []
        peer.settimeout(None)
        for source, end, kept in (client, peer, said), (peer, client, answered):
            threading.Thread(target=pass_on, args=(source, end, kept), daemon=True).start()
        while not os.path.exists(file):  # the first connection's first bytes
            time.sleep(0.01)
            if len(said) >= 3 and answered:  # hello, the client's Finished and greeting, a message
                pathlib.Path(file).write_bytes(b"".join(said))
                pathlib.Path(file + ".answer").write_bytes(answered[0])


def replay(host, port, file):
    peer = connect(host, port)
    try:
        peer.sendall(pathlib.Path(file).read_bytes())
    except OSError:
        pass
    tell("replay", *reversed(answer(peer)))
    say(f"first answer: {len(pathlib.Path(file + '.answer').read_bytes())} bytes")


def pose(port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(*self_made(folder))
    server = listener(port)
    say("posing")
    while True:
        client, _ = server.accept()
        heard = 0
        try:
            session = context.wrap_socket(client, server_side=True)
            session.settimeout(WAIT)
            heard = len(session.recv(65536))
        except OSError:
            pass
        say(f"heard {heard} bytes")


if __name__ == "__main__":
    does = {"attack": attack, "crowd": crowd, "relay": relay, "replay": replay, "pose": pose}
    words = [int(word) if word.isdigit() else word for word in sys.argv[2:]]
    does[sys.argv[1]](*words)
