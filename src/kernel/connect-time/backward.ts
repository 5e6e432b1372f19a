import { Assembler, stack } from '../bpf/assembler.ts'
import type { Program } from '../bpf/instruction.ts'
import {
  type Family,
  helpers,
  IPPROTO_TCP,
  lookUp,
  readAddress,
  writeAddress,
} from './context.ts'
import { address, socketKey } from './tables.ts'

const context = 6
const key = -socketKey.size

/** Where a socket was led to a VIP's endpoint, its peer is shown as the VIP that it dialled. */
export const backward = (family: Family, hook: 'peer' | 'receive'): Program => {
  const write = new Assembler()
  write.move(context, 1)
  readAddress(write, family, context, key + socketKey.address)
  write
    .move(1, context)
    .call(helpers.socketCookie)
    .store('u64', stack, key + socketKey.cookie, 0)
  if (hook === 'peer') {
    write
      .load('u8', 1, stack, key + socketKey.address + address.protocol)
      .ifNotEqual(1, IPPROTO_TCP, 'UDP')
    lookUp(write, 'peers', key).jump('found').label('UDP')
  }
  lookUp(write, 'reverse', key).label('found').ifEqual(0, 0, 'as it is').move(2, 0)
  writeAddress(write, family, context, 2)
  return write.label('as it is').set(0, 1).exit().program()
}
