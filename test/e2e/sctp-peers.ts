/**
 * Two programs that speak the beginning of SCTP (RFC 9260) over raw sockets, for kernels
 * that have no SCTP themselves: an INIT, and an INIT ACK in answer. Checksums are right, or
 * conntrack would drop them.
 */
const common = `
import socket, struct, sys

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

def packet(source, to, tag, chunk):
    body = struct.pack('>HHII', source, to, tag, 0) + chunk
    return body[:8] + struct.pack('<I', crc32c(body)) + body[12:]

def chunk(kind, tag):
    return struct.pack('>BBHIIHHI', kind, 0, 20, tag, 65536, 1, 1, 1)

def payload(family, data):
    # Of IPv6 a raw socket is given no header.
    return data[(data[0] & 15) * 4:] if family == socket.AF_INET else data

def family_of(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET
`

/** Arguments: its addresses; answers each INIT to port 8080, with the tag 7. */
export const sctpServer = `${common}
import selectors
sel = selectors.DefaultSelector()
for address in sys.argv[1:]:
    s = socket.socket(family_of(address), socket.SOCK_RAW, 132)
    s.bind((address, 0))
    sel.register(s, selectors.EVENT_READ)
print('listens', flush=True)
while True:
    for key, _ in sel.select():
        s = key.fileobj
        data, client = s.recvfrom(2048)
        data = payload(s.family, data)
        source, to, tag = struct.unpack('>HHI', data[:8])
        theirs = struct.unpack('>I', data[16:20])[0]
        if to == 8080 and data[12] == 1:
            s.sendto(packet(to, source, theirs, chunk(2, 7)), (client[0], 0))
`

/**
 * Arguments: addresses, each with its port after it, which are tried in turn: an ICMP error is
 * of the one INIT that is on its way. A line for each: \`answer\` for an INIT ACK from
 * just there, \`refused\` for an ICMP error, \`silence\` after a second.
 */
export const sctpClient = `${common}
import random, select

def ask(address, port):
    family = family_of(address)
    s = socket.socket(family, socket.SOCK_RAW, 132)
    icmp = socket.socket(family, socket.SOCK_RAW, 58 if family == socket.AF_INET6 else 1)
    own = random.randrange(20000, 60000)
    try:
        s.sendto(packet(own, port, 0, chunk(1, 42)), (address, 0))
    except PermissionError:
        # A rule of the sender's own kernel.
        return 'refused'
    while True:
        ready, _, _ = select.select([s, icmp], [], [], 1)
        if not ready:
            return 'silence'
        if icmp in ready:
            kind = payload(family, icmp.recv(2048))[0]
            if kind == (1 if family == socket.AF_INET6 else 3):
                return 'refused'
            continue
        data, peer = s.recvfrom(2048)
        data = payload(family, data)
        source, to, tag = struct.unpack('>HHI', data[:8])
        if to == own and tag == 42 and data[12] == 2:
            return 'answer' if (peer[0], source) == (address, port) else f'astray {peer[0]} {source}'

for address, port in zip(sys.argv[1::2], sys.argv[2::2]):
    print(ask(address, int(port)))
`
