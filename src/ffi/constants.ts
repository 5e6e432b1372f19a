/**
 * Numbers of Linux's interface that are the same on x86-64 and arm64
 * (include/uapi/asm-generic, include/uapi/linux). Others stand in struct-layout.ts.
 */
export const AF_UNIX = 1
export const AF_INET = 2
export const AF_INET6 = 10
export const AF_NETLINK = 16
export const SOCK_STREAM = 1
export const SOCK_DGRAM = 2
export const SOCK_SEQPACKET = 5
export const SOCK_NONBLOCK = 0o4000
export const SOCK_CLOEXEC = 0o2000000

export const SOL_SOCKET = 1
export const SO_REUSEADDR = 2
export const SO_ERROR = 4
export const SO_SNDBUF = 7
export const SO_RCVBUF = 8
export const SO_KEEPALIVE = 9
export const SO_LINGER = 13
export const SO_REUSEPORT = 15
/** Process, user and group at the other end of a unix socket: a struct ucred. */
export const SO_PEERCRED = 17
export const SO_RCVBUFFORCE = 33
export const SO_ATTACH_REUSEPORT_CBPF = 51
export const SO_DETACH_REUSEPORT_BPF = 68
/** Of a control message whose data are descriptors (unix(7)). */
export const SCM_RIGHTS = 1
/** Of IPPROTO_IP and IPPROTO_IPV6, by netfilter (uapi/linux/netfilter_ipv4.h). */
export const SO_ORIGINAL_DST = 80

export const IPPROTO_IP = 0
export const IP_TTL = 2
export const IP_PKTINFO = 8
export const IP_RECVTTL = 12
export const IP_MULTICAST_TTL = 33
export const IPPROTO_IPV6 = 41
export const IPV6_UNICAST_HOPS = 16
export const IPV6_MULTICAST_HOPS = 18
export const IPV6_V6ONLY = 26
export const IPV6_RECVPKTINFO = 49
export const IPV6_PKTINFO = 50
export const IPV6_RECVHOPLIMIT = 51
export const IPV6_HOPLIMIT = 52

export const IPPROTO_TCP = 6
export const TCP_NODELAY = 1
export const TCP_KEEPIDLE = 4
export const TCP_KEEPINTVL = 5
export const TCP_KEEPCNT = 6
export const TCP_INFO = 11
export const TCP_USER_TIMEOUT = 18

export const IPPROTO_UDP = 17
export const UDP_SEGMENT = 103
export const UDP_GRO = 104

export const F_DUPFD_CLOEXEC = 1030

export const MSG_DONTWAIT = 0x40
export const MSG_NOSIGNAL = 0x4000
export const MSG_PEEK = 0x2
export const MSG_CTRUNC = 0x8
export const MSG_TRUNC = 0x20
export const MSG_MORE = 0x8000
export const MSG_CMSG_CLOEXEC = 0x40000000
/** Of sendmsg with descriptors (unix(7)); Node has no name for it. */
export const ETOOMANYREFS = 109

export const SHUT_WR = 1

export const POLLIN = 0x1

export const EPOLLIN = 0x1
export const EPOLLPRI = 0x2
export const EPOLLOUT = 0x4
export const EPOLLERR = 0x8
export const EPOLLHUP = 0x10
export const EPOLLRDHUP = 0x2000
/** As a signed 32-bit number, as typed arrays have it. */
export const EPOLLET = 1 << 31
export const EPOLL_CTL_ADD = 1
export const EPOLL_CTL_DEL = 2
export const EPOLL_CTL_MOD = 3

export const SPLICE_F_MOVE = 1
export const SPLICE_F_NONBLOCK = 2

export const F_SETPIPE_SZ = 1031
/** Bytes in a socket's send queue that its peer has not acknowledged (tcp(7), SIOCOUTQ). */
export const SIOCOUTQ = 0x5411
/** Of those what was not sent yet (include/uapi/linux/sockios.h). */
export const SIOCOUTQNSD = 0x894b
/** Bytes in a socket's receive queue (tcp(7), SIOCINQ). */
export const SIOCINQ = 0x541b
