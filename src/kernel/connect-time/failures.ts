import { Assembler, stack } from '../bpf/assembler.ts'
import type { Program } from '../bpf/instruction.ts'
import { helpers, put, readIp } from './context.ts'
import { address } from './tables.ts'

/** Of struct bpf_sock_ops. */
const socket = {
  operation: 0,
  before: 4,
  after: 8,
  family: 20,
  ip4: 24,
  ip6: 32,
  port: 64,
  callbacks: 84,
} as const
/** Operations of enum bpf_sock_ops op. */
const connects = 3
const changesState = 10
/** BPF_SOCK_OPS_STATE_CB_FLAG */
const stateCallback = 4
/** States of TCP (include/net/tcp_states.h). */
const synSent = 2
const closed = 7
const AF_INET = 2

const context = 6
const key = -address.size
const time = key - 8

/** Remembers where a TCP connect has failed, and when: the next ones pass that endpoint over. */
export const failures = (): Program => {
  const write = new Assembler()
  write
    .move(context, 1)
    .load('u32', 1, context, socket.operation)
    .ifEqual(1, connects, 'connects')
    .ifNotEqual(1, changesState, 'done')
    .load('u32', 1, context, socket.before)
    .ifNotEqual(1, synSent, 'done')
    .load('u32', 1, context, socket.after)
    .ifNotEqual(1, closed, 'done')
  readPeer(write)
  write.call(helpers.nanoseconds).store('u64', stack, time, 0)
  put(write, 'failed', key, time)
  write
    .jump('done')
    .label('connects')
    .move(1, context)
    // Beside those that others have asked for.
    .load('u32', 2, context, socket.callbacks)
    .orValue(2, stateCallback)
    .call(helpers.setCallbacks)
  return write.label('done').set(0, 1).exit().program()
}

const readPeer = (write: Assembler): void => {
  write.load('u32', 1, context, socket.family).ifNotEqual(1, AF_INET, 'IPv6')
  readIp(write, 4, context, socket, key)
  write.jump('port').label('IPv6')
  readIp(write, 6, context, socket, key)
  write
    .label('port')
    .storeValue('u64', stack, key + address.port, 0)
    .load('u32', 1, context, socket.port)
    // In the upper half, in network order (include/uapi/linux/bpf.h).
    .shiftRight(1, 16)
    .store('u16', stack, key + address.port, 1)
}
