import { Assembler, stack } from '../bpf/assembler.ts'
import type { Program } from '../bpf/instruction.ts'
import { type Family, helpers, lookUp, readAddress, writeAddress } from './context.ts'
import { socketKey } from './tables.ts'

const context = 6
const key = -socketKey.size

/** Where a socket was led to a VIP's endpoint, its peer is shown as the VIP that it dialled. */
export const backward = (family: Family): Program => {
  const write = new Assembler()
  write.move(context, 1)
  readAddress(write, family, context, key + socketKey.address)
  write
    .move(1, context)
    .call(helpers.socketCookie)
    .store('u64', stack, key + socketKey.cookie, 0)
  lookUp(write, 'reverse', key).ifEqual(0, 0, 'as it is').move(2, 0)
  writeAddress(write, family, context, 2)
  return write.label('as it is').set(0, 1).exit().program()
}
