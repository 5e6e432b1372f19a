import { NativeMemory, openCLibrary, result } from './c-library.ts'

export { NativeMemory }

type OptionCall = (
  ...of: [fd: number, level: number, name: number, value: number, length: number]
) => number

/**
 * The system calls that the Linux relay makes. Each is described in section 2 of the manual pages by its own name.
 *
 * Results are the kernel's: zero or more for success, a negative errno otherwise (see
 * errno.ts). Addresses are those of `NativeMemory`; the caller answers for lengths and for
 * the memory being alive. Nothing here allocates but `allocate`.
 */
export interface Syscalls {
  allocate(bytes: number): NativeMemory

  socket(domain: number, type: number, protocol: number): number
  bind(fd: number, address: number, length: number): number
  listen(fd: number, backlog: number): number
  /** `accept4`: writes the peer's address and its length; `flags` as for `socket`'s type. */
  accept(fd: number, address: number, length: number, flags: number): number
  connect(fd: number, address: number, length: number): number
  shutdown(fd: number, how: number): number
  close(fd: number): number

  read(fd: number, address: number, length: number): number
  write(fd: number, address: number, length: number): number
  /** What `read` and `write` do for a socket, without their detour through files. */
  recv(fd: number, address: number, length: number, flags: number): number
  send(fd: number, address: number, length: number, flags: number): number
  pipe(fds: number, flags: number): number
  splice(from: number, to: number, length: number, flags: number): number
  recvmmsg(fd: number, headers: number, count: number, flags: number): number
  sendmmsg(fd: number, headers: number, count: number, flags: number): number
  /** One message, with whatever goes beside its bytes, such as descriptors (unix(7), SCM_RIGHTS). */
  sendmsg(fd: number, header: number, flags: number): number
  recvmsg(fd: number, header: number, flags: number): number

  getsockname(fd: number, address: number, length: number): number
  getpeername(fd: number, address: number, length: number): number
  getsockopt: OptionCall
  setsockopt: OptionCall
  /** `ioctl` and `fcntl` with an address or a number for their argument. */
  ioctl(fd: number, request: number, argument: number): number
  fcntl(fd: number, command: number, argument: number): number

  /** Of `count` struct pollfd. */
  poll(fds: number, count: number, ms: number): number
  epollCreate(flags: number): number
  epollCtl(epoll: number, operation: number, fd: number, event: number): number
  epollWait(epoll: number, events: number, count: number, ms: number): number
  eventfd(count: number, flags: number): number
}

/**
 * C prototypes with every pointer and size as a 64-bit number: what they are on each
 * platform of struct-layout.ts, and what koffi converts fastest.
 */
const prototypes = {
  socket: 'int socket(int, int, int)',
  bind: 'int bind(int, int64_t, uint32_t)',
  listen: 'int listen(int, int)',
  accept4: 'int accept4(int, int64_t, int64_t, int)',
  connect: 'int connect(int, int64_t, uint32_t)',
  shutdown: 'int shutdown(int, int)',
  close: 'int close(int)',
  read: 'int64_t read(int, int64_t, int64_t)',
  write: 'int64_t write(int, int64_t, int64_t)',
  recv: 'int64_t recv(int, int64_t, int64_t, int)',
  send: 'int64_t send(int, int64_t, int64_t, int)',
  pipe2: 'int pipe2(int64_t, int)',
  splice: 'int64_t splice(int, int64_t, int, int64_t, int64_t, uint32_t)',
  recvmmsg: 'int recvmmsg(int, int64_t, uint32_t, int, int64_t)',
  sendmmsg: 'int sendmmsg(int, int64_t, uint32_t, int)',
  sendmsg: 'int64_t sendmsg(int, int64_t, int)',
  recvmsg: 'int64_t recvmsg(int, int64_t, int)',
  getsockname: 'int getsockname(int, int64_t, int64_t)',
  getpeername: 'int getpeername(int, int64_t, int64_t)',
  getsockopt: 'int getsockopt(int, int, int, int64_t, int64_t)',
  setsockopt: 'int setsockopt(int, int, int, int64_t, uint32_t)',
  ioctl: 'int ioctl(int, uint64_t, int64_t)',
  fcntl: 'int fcntl(int, int, int64_t)',
  poll: 'int poll(int64_t, uint64_t, int)',
  epoll_create1: 'int epoll_create1(int)',
  epoll_ctl: 'int epoll_ctl(int, int, int, int64_t)',
  epoll_wait: 'int epoll_wait(int, int64_t, int, int)',
  eventfd: 'int eventfd(uint32_t, int)',
} as const satisfies Readonly<Record<string, string>>

/**
 * Loads koffi and looks up the calls. Throws where koffi is not installed, has no binary
 * for this platform, or the C library lacks a call.
 */
export const loadSyscalls = (): Syscalls => {
  const library = openCLibrary()
  const { errno } = library
  const call = (name: keyof typeof prototypes): ((...args: number[]) => number) =>
    library.func(prototypes[name])
  const c = {
    socket: call('socket'),
    bind: call('bind'),
    listen: call('listen'),
    accept4: call('accept4'),
    connect: call('connect'),
    shutdown: call('shutdown'),
    close: call('close'),
    read: call('read'),
    write: call('write'),
    recv: call('recv'),
    send: call('send'),
    pipe2: call('pipe2'),
    splice: call('splice'),
    recvmmsg: call('recvmmsg'),
    sendmmsg: call('sendmmsg'),
    sendmsg: call('sendmsg'),
    recvmsg: call('recvmsg'),
    getsockname: call('getsockname'),
    getpeername: call('getpeername'),
    getsockopt: call('getsockopt'),
    setsockopt: call('setsockopt'),
    ioctl: call('ioctl'),
    fcntl: call('fcntl'),
    poll: call('poll'),
    epollCreate1: call('epoll_create1'),
    epollCtl: call('epoll_ctl'),
    epollWait: call('epoll_wait'),
    eventfd: call('eventfd'),
  }
  return {
    allocate: bytes => library.allocate(bytes),
    socket: (domain, type, protocol) =>
      result(c.socket(domain, type, protocol), errno[0]),
    bind: (fd, address, length) => result(c.bind(fd, address, length), errno[0]),
    listen: (fd, backlog) => result(c.listen(fd, backlog), errno[0]),
    accept: (fd, address, length, flags) =>
      result(c.accept4(fd, address, length, flags), errno[0]),
    connect: (fd, address, length) => result(c.connect(fd, address, length), errno[0]),
    shutdown: (fd, how) => result(c.shutdown(fd, how), errno[0]),
    close: fd => result(c.close(fd), errno[0]),
    read: (fd, address, length) => result(c.read(fd, address, length), errno[0]),
    write: (fd, address, length) => result(c.write(fd, address, length), errno[0]),
    recv: (fd, address, length, flags) =>
      result(c.recv(fd, address, length, flags), errno[0]),
    send: (fd, address, length, flags) =>
      result(c.send(fd, address, length, flags), errno[0]),
    pipe: (fds, flags) => result(c.pipe2(fds, flags), errno[0]),
    splice: (from, to, length, flags) =>
      result(c.splice(from, 0, to, 0, length, flags), errno[0]),
    recvmmsg: (fd, headers, count, flags) =>
      result(c.recvmmsg(fd, headers, count, flags, 0), errno[0]),
    sendmmsg: (fd, headers, count, flags) =>
      result(c.sendmmsg(fd, headers, count, flags), errno[0]),
    sendmsg: (fd, header, flags) => result(c.sendmsg(fd, header, flags), errno[0]),
    recvmsg: (fd, header, flags) => result(c.recvmsg(fd, header, flags), errno[0]),
    getsockname: (fd, address, length) =>
      result(c.getsockname(fd, address, length), errno[0]),
    getpeername: (fd, address, length) =>
      result(c.getpeername(fd, address, length), errno[0]),
    getsockopt: (fd, level, name, value, length) =>
      result(c.getsockopt(fd, level, name, value, length), errno[0]),
    setsockopt: (fd, level, name, value, length) =>
      result(c.setsockopt(fd, level, name, value, length), errno[0]),
    ioctl: (fd, request, argument) => result(c.ioctl(fd, request, argument), errno[0]),
    fcntl: (fd, command, argument) => result(c.fcntl(fd, command, argument), errno[0]),
    poll: (fds, count, ms) => result(c.poll(fds, count, ms), errno[0]),
    epollCreate: flags => result(c.epollCreate1(flags), errno[0]),
    epollCtl: (epoll, operation, fd, event) =>
      result(c.epollCtl(epoll, operation, fd, event), errno[0]),
    epollWait: (epoll, events, count, ms) =>
      result(c.epollWait(epoll, events, count, ms), errno[0]),
    eventfd: (count, flags) => result(c.eventfd(count, flags), errno[0]),
  }
}
