/** A system call of the Linux relay, and what the kernel may answer instead of doing it. */
export interface Fault {
  readonly call: string
  readonly errors: readonly string[]
  /** strace(1), `when=`: from the first of these calls on, every so many. */
  readonly when: string
  /**
   * Connections may fail while it lasts, as long as the client is told by a reset;
   * otherwise none may. Lost bytes are never allowed.
   */
  readonly mayFail: boolean
  readonly protocol: 'TCP' | 'UDP'
}

/**
 * Bounded: a thread that strace lets go in the middle of a call it has prevented gets ENOSYS,
 * which no kernel would answer.
 */
const everyFifth = '2..100+5'

const tcp = (call: string, errors: readonly string[], mayFail: boolean): Fault => ({
  call,
  errors,
  mayFail,
  when: everyFifth,
  protocol: 'TCP',
})

const udp = (call: string, errors: readonly string[]): Fault => ({
  ...tcp(call, errors, false),
  protocol: 'UDP',
})

/**
 * Only a worker that has not had bulky traffic makes these calls: later it has pipes to
 * spare. Without a pipe bytes are copied.
 */
export const earlyFaults: readonly Fault[] = [
  { ...tcp('pipe2', ['EMFILE', 'ENOMEM'], false), when: '1..9+2' },
  { ...tcp('fcntl', ['ENOMEM'], false), when: '1..9+2' },
]

/**
 * Calls of a worker, with what the kernel may answer to each. Left out are close(2), which
 * has closed whatever it answers where strace makes it do nothing, so that what is left
 * would be strace's; shutdown(2), ioctl(SIOCOUTQ) and the socket options of a connection,
 * which need no memory and do not wait; and EMFILE where no descriptor is made.
 */
export const workerFaults: readonly Fault[] = [
  // The client waits in the queue, and is taken later; ECONNABORTED: it has gone.
  tcp('accept4', ['EMFILE', 'ENOBUFS', 'ENOMEM', 'EINTR', 'ECONNABORTED'], false),
  // A dial without a socket ends the connection, when no other attempt is left.
  tcp('socket', ['EMFILE', 'ENOBUFS', 'ENOMEM'], true),
  tcp('connect', ['ENOBUFS', 'EINTR'], true),
  tcp('epoll_ctl', ['ENOMEM'], true),
  { ...tcp('epoll_wait', ['EINTR'], false), when: '2..20+3' },
  // An eventfd says that there are orders: they must not be forgotten.
  { ...tcp('read', ['EINTR'], false), when: '1..9+2' },
  tcp('recvfrom', ['EINTR', 'ENOMEM'], false),
  tcp('sendto', ['EINTR', 'ENOMEM', 'ENOBUFS'], false),
  tcp('splice', ['EINTR', 'ENOMEM'], false),
  // TCP_INFO of an endpoint, asked for once in a while: without it nothing is missed.
  { ...tcp('getsockopt', ['ENOBUFS'], false), when: '1..9+2' },
  // Datagrams that are lost for it are sent again by the client.
  udp('recvmmsg', ['EINTR', 'ENOMEM']),
  udp('sendmmsg', ['EINTR', 'ENOMEM', 'ENOBUFS']),
  udp('socket', ['EMFILE', 'ENOBUFS']),
  udp('connect', ['ENOBUFS']),
  udp('epoll_ctl', ['ENOMEM']),
]

/**
 * Calls of the main thread, which opens listening sockets: one that fails is tried again.
 * Node's own loop makes none of them then.
 */
export const mainFaults: readonly Fault[] = [
  { ...tcp('socket', ['EMFILE', 'ENOBUFS'], true), when: '1' },
  { ...tcp('bind', ['ENOMEM'], true), when: '1' },
  { ...tcp('listen', ['ENOMEM'], true), when: '1' },
  { ...tcp('setsockopt', ['ENOBUFS'], true), when: '1' },
]

/** One call with one answer. */
export interface FaultCase extends Omit<Fault, 'errors'> {
  readonly error: string
}

export const casesOf = (faults: readonly Fault[]): readonly FaultCase[] =>
  faults.flatMap(({ errors, ...fault }) =>
    errors.map(error => Object.assign({ error }, fault)),
  )
