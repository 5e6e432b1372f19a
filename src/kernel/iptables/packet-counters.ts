import {
  AF_NETLINK,
  MSG_DONTWAIT,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
} from '../../ffi/constants.ts'
import { structLayout } from '../../ffi/struct-layout.ts'
import { loadSyscalls, type Syscalls } from '../../ffi/syscalls.ts'

/** kube-proxy's, shown as metrics. */
export const counterNames = {
  invalidDropped: 'ct_state_invalid_dropped_pkts',
  localhostNodePorts: 'localhost_nps_accepted_pkts',
} as const

export type CounterName = (typeof counterNames)[keyof typeof counterNames]

/** Counters of packets by name, to which rules add by `-m nfacct`. They outlive all rules. */
export interface PacketCounters {
  /** Whether it is there now; made where it is missing. */
  ensure(name: CounterName): boolean
  /** Packets so far; undefined where there is no such counter, or it can't be read. */
  read(name: CounterName): number | undefined
}

/** uapi/linux/netlink.h, netfilter/nfnetlink.h and netfilter/nfnetlink_acct.h. */
const NETLINK_NETFILTER = 12
const NLM_F_REQUEST = 1
const NLM_F_ACK = 4
const NLM_F_CREATE = 0x400
const NLMSG_ERROR = 2
const NFNL_SUBSYS_ACCT = 7 << 8
const NFNL_MSG_ACCT_NEW = 0
const NFNL_MSG_ACCT_GET = 1
const NFACCT_NAME = 1
const NFACCT_PKTS = 2

/** struct nlmsghdr and struct nfgenmsg, and one attribute's header. */
const headBytes = 20
const attributeBytes = 4
const answerBytes = 512

const loadedOrNot = (): { readonly calls?: Syscalls | undefined } => {
  try {
    return { calls: structLayout() && loadSyscalls() }
  } catch {
    return {}
  }
}

/** Those of this process's network. */
export const hostCounters = (): PacketCounters => {
  let loaded: ReturnType<typeof loadedOrNot> | undefined
  // By whoever asks first, as loading takes 25 ms.
  const ask = (command: number, flags: number, name: string): Buffer => {
    const { calls } = (loaded ??= loadedOrNot())
    const message = request(command, flags, name)
    return calls === undefined ? Buffer.alloc(0) : exchange(calls, message)
  }
  const read = (name: CounterName): number | undefined =>
    packetsIn(ask(NFNL_MSG_ACCT_GET, 0, name))
  const ensure = (name: CounterName): boolean => {
    if (read(name) !== undefined) return true
    ask(NFNL_MSG_ACCT_NEW, NLM_F_CREATE | NLM_F_ACK, name)
    return read(name) !== undefined
  }
  return { ensure, read }
}

const request = (command: number, flags: number, name: string): Buffer => {
  const length = attributeBytes + name.length + 1
  const message = Buffer.alloc(headBytes + Math.ceil(length / 4) * 4)
  message.writeUInt32LE(message.length, 0)
  message.writeUInt16LE(NFNL_SUBSYS_ACCT | command, 4)
  message.writeUInt16LE(NLM_F_REQUEST | flags, 6)
  message.writeUInt16LE(length, headBytes)
  message.writeUInt16LE(NFACCT_NAME, headBytes + 2)
  message.write(name, headBytes + attributeBytes, 'latin1')
  return message
}

/** The kernel has answered by the time it has taken a message: nothing is waited for. */
const exchange = (calls: Syscalls, message: Buffer): Buffer => {
  const fd = calls.socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_NETFILTER)
  if (fd < 0) return Buffer.alloc(0)
  const { address, bytes } = calls.allocate(answerBytes)
  message.copy(bytes)
  const sent = calls.send(fd, address, message.length, 0)
  const got = sent < 0 ? sent : calls.recv(fd, address, answerBytes, MSG_DONTWAIT)
  calls.close(fd)
  return bytes.subarray(0, Math.max(0, got))
}

/** Undefined of an answer that is an error, or none. */
const packetsIn = (answer: Buffer): number | undefined => {
  if (answer.length < headBytes || answer.readUInt16LE(4) === NLMSG_ERROR)
    return undefined
  for (let at = headBytes; at + attributeBytes < answer.length;) {
    if (answer.readUInt16LE(at + 2) === NFACCT_PKTS)
      return Number(answer.readBigUInt64BE(at + attributeBytes))
    at += Math.max(attributeBytes, Math.ceil(answer.readUInt16LE(at) / 4) * 4)
  }
  return undefined
}
