# Sockets as Node can't have them: bound to a device, connected twice. In a network namespace of its
# own, where nothing but steering leads from a VIP to an endpoint; the VIPs themselves are on lo, with
# servers that stand for the proxy mode. Prints a line of JSON for each test that its arguments name.
import ctypes, json, os, socket, struct, subprocess, sys, threading

VIP, VIP6, OTHER, MODE = '10.96.0.1', 'fd10:96::1', '10.96.0.2', 'the mode'
ENDPOINT, ENDPOINT6 = '10.244.1.7', 'fd10:244::7'
NODE = '192.0.2.1'
REFUSES = 81


def ip(*args):
    subprocess.run(['ip', *args], check=True)


def echo(address, port=80, name=None):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    udp, tcp = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for each in (udp, tcp):
        each.bind((address, port))
    tcp.listen()
    answer = (name or address).encode()

    def datagrams():
        while True:
            udp.sendto(answer, udp.recvfrom(99)[1])

    def connections():
        while True:
            tcp.accept()[0].sendall(answer)

    for each in (datagrams, connections):
        threading.Thread(target=each, daemon=True).start()


def opened(kind, family=socket.AF_INET):
    s = socket.socket(family, kind)
    s.settimeout(10)
    return s


UDP, TCP = socket.SOCK_DGRAM, socket.SOCK_STREAM


def asked(s, to=None):
    """Who answers, and from where."""
    if s.type == TCP:
        return [s.recv(99).decode(), s.getpeername()[0]]
    s.sendto(b'?', to) if to else s.send(b'?')
    answer, source = s.recvfrom(99)
    return [answer.decode(), source[0]]


def dialled(s, address, port=80):
    try:
        s.connect((address, port))
        return asked(s)
    except OSError as error:
        return [type(error).__name__, error.errno]


def disconnect(s):
    unspecified = struct.pack('H14x', socket.AF_UNSPEC)
    assert ctypes.CDLL(None).connect(s.fileno(), unspecified, 16) == 0


# What was led once, and then goes to its endpoint itself.


def again(s, vip, endpoint):
    first = dialled(s, vip)
    return first, dialled(s, endpoint), s.getpeername()[0]


def reconnected():
    return again(opened(UDP), VIP, ENDPOINT)


def mapped():
    return again(opened(UDP, socket.AF_INET6), '::ffff:' + VIP, '::ffff:' + ENDPOINT)


def family_of_six():
    return again(opened(UDP, socket.AF_INET6), VIP6, ENDPOINT6)


def mixed():
    return again(opened(UDP, socket.AF_INET6), VIP, '::ffff:' + ENDPOINT)


def disconnected():
    s = opened(UDP)
    first = dialled(s, VIP)
    disconnect(s)
    return first, dialled(s, ENDPOINT), s.getpeername()[0]


def sent():
    s = opened(UDP)
    to = [(VIP, 80), (ENDPOINT, 80), (VIP, 80), (OTHER, 80), (ENDPOINT, 80)]
    return [asked(s, each)[1] for each in to]


def sent_six():
    s = opened(UDP, socket.AF_INET6)
    to = [(VIP6, 80), (ENDPOINT6, 80), ('::ffff:' + VIP, 80), ('::ffff:' + ENDPOINT, 80)]
    return [asked(s, each)[1] for each in to]


def sent_then_connected():
    s = opened(UDP)
    return asked(s, (VIP, 80)), dialled(s, ENDPOINT), s.getpeername()[0]


def refused_then_connected():
    s = opened(TCP)
    # One that does not wait is told of it once more by the next connect.
    s.settimeout(None)
    first = dialled(s, VIP, REFUSES)
    echo(ENDPOINT, REFUSES)
    return first, dialled(s, ENDPOINT, REFUSES), s.getpeername()[0]


def keeps_its_peer():
    """What a socket with a peer sends to an endpoint by its own address does not change its peer."""
    s = opened(UDP)
    dialled(s, VIP)
    return asked(s, (ENDPOINT, 80)), s.getpeername()[0]


def sent_beside_its_peer():
    s = opened(UDP)
    dialled(s, ENDPOINT)
    return asked(s, (VIP, 80)), s.getpeername()[0]


# Whose own end does not get to an endpoint.


def bound(kind, own, to, port=80, family=socket.AF_INET):
    s = opened(kind, family)
    s.bind((own, 0))
    return dialled(s, to, port)


def own_ends(kind):
    six = socket.AF_INET6
    return {
        'none': dialled(opened(kind), VIP),
        'node': bound(kind, NODE, VIP),
        'loopback': bound(kind, '127.0.0.1', VIP),
        'another of loopback': bound(kind, '127.9.9.9', VIP),
        'mapped': bound(kind, '::ffff:127.0.0.1', '::ffff:' + VIP, 80, six),
        'mapped node': bound(kind, '::ffff:' + NODE, '::ffff:' + VIP, 80, six),
        'link': bound(kind, '169.254.1.1', VIP),
        'none of IPv6': dialled(opened(kind, six), VIP6),
        'loopback of IPv6': bound(kind, '::1', VIP6, 80, six),
        'node of IPv6': bound(kind, '2001:db8::1', VIP6, 80, six),
        'wildcard': bound(kind, '0.0.0.0', VIP),
        'wildcard of IPv6': bound(kind, '::', VIP6, 80, six),
        'node port': bound(kind, '127.0.0.1', '127.0.0.1', 30080),
    }


def own_ends_tcp():
    return own_ends(TCP)


def own_ends_udp():
    return own_ends(UDP)


def of_device(name, kind=TCP):
    s = opened(kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    return dialled(s, VIP)


def devices():
    return {'lo': of_device('lo'), 'lo, UDP': of_device('lo', UDP)}


def sent_from():
    """Without a connect; by the address of the socket, and by one for the datagram alone (ip(7), IP_PKTINFO)."""
    of_socket, of_datagram = opened(UDP), opened(UDP)
    of_socket.bind(('127.0.0.1', 0))
    info = struct.pack('I4s4s', 0, socket.inet_aton('127.0.0.1'), bytes(4))
    IP_PKTINFO = 8
    of_datagram.sendmsg([b'?'], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, (VIP, 80))
    return [asked(of_socket, (VIP, 80)), of_datagram.recv(99).decode(), asked(opened(UDP), (VIP, 80))]


def led():
    return [dialled(opened(kind), VIP)[0] for kind in (TCP, UDP)]


def led_as_data_plane():
    os.setuid(2071510256)
    return led()


# VIPs that mean something else to each client.


def dialled_places():
    def both(to, family=socket.AF_INET):
        return [dialled(opened(kind, family), to)[0] for kind in (TCP, UDP)]

    six = socket.AF_INET6
    return {
        '127.0.0.1': both('127.0.0.1'),
        '127.3.3.3': both('127.3.3.3'),
        '0.0.0.0': both('0.0.0.0'),
        '::ffff:127.0.0.1': both('::ffff:127.0.0.1', six),
        '::1': both('::1', six),
        '169.254.1.1': both('169.254.1.1'),
    }


ip('link', 'set', 'lo', 'up')
ip('link', 'add', 'node', 'type', 'veth', 'peer', 'name', 'peer')
for address in (VIP, OTHER, VIP6 + '/128', '169.254.1.1'):
    ip('address', 'add', address, 'dev', 'lo')
for address in (NODE + '/24', ENDPOINT + '/32'):
    ip('address', 'add', address, 'dev', 'node')
for address in (ENDPOINT6 + '/128', '2001:db8::1/64'):
    ip('address', 'add', address, 'dev', 'node', 'nodad')
for each in ('node', 'peer'):
    ip('link', 'set', each, 'up')
for each in (ENDPOINT, ENDPOINT6):
    echo(each)
for each in (VIP, OTHER, VIP6, '127.0.0.1', '127.3.3.3', '169.254.1.1', '::1'):
    echo(each, name=MODE)
echo('127.0.0.1', 30080, MODE)
for line in sys.stdin:
    print(json.dumps(globals()[line.strip()]()), flush=True)
