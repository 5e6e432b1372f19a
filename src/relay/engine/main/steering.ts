import { addressWords } from '../../../util/cidr.ts'
import type { IpFamily } from '../../../util/ip.ts'
import {
  SO_ATTACH_REUSEPORT_CBPF,
  SO_DETACH_REUSEPORT_BPF,
  SOL_SOCKET,
} from '../../../ffi/constants.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'

/** Instructions of classic BPF (include/uapi/linux/bpf_common.h, linux/filter.h). */
const loadWord = 0x20
const toIndex = 0x07
const xorIndex = 0xac
const multiply = 0x24
const shiftRight = 0x74
const modulo = 0x94
const returnValue = 0x16
const returnConstant = 0x06

/** Offsets from here on count from the network header, as the program starts behind it. */
const networkHeader = -0x100000

/** The 32-bit words of a packet that make up its source address. */
const sourceWords = { IPv4: [12], IPv6: [8, 12, 16, 20] } as const

/** Odd, and close to 2^32 by the golden ratio: neighbours end up apart. */
const spread = 0x9e3779b1

type Instruction = readonly [code: number, value: number]

/** Gives a client always to the same of `sockets` sockets of a SO_REUSEPORT group. */
const steeringProgram = (family: IpFamily, sockets: number): readonly Instruction[] => {
  const [first, ...others] = sourceWords[family]
  return [
    [loadWord, networkHeader + first],
    ...others.flatMap((at): Instruction[] => [
      [toIndex, 0],
      [loadWord, networkHeader + at],
      [xorIndex, 0],
    ]),
    [multiply, spread],
    [shiftRight, 16],
    [modulo, sockets],
    [returnValue, 0],
  ]
}

/** To which of `sockets` that program gives a client. */
export const socketOf = (client: string, sockets: number): number => {
  const words = addressWords(client) ?? []
  const mixed = words.reduce((all, word) => all ^ word, 0)
  return (Math.imul(mixed, spread) >>> 16) % sockets
}

const instructionSize = 8
const mostInstructions = 24
/** struct sock_fprog: a 16-bit count, a pointer at 8. */
const headerSize = 16

/**
 * Which socket of a SO_REUSEPORT group a client comes to. The kernel's choice goes by the
 * client's port too; ClientIP affinity needs all of a client's connections in one worker,
 * who alone remembers it (socket(7), SO_ATTACH_REUSEPORT_CBPF).
 */
export class Steering {
  readonly #calls: Syscalls
  readonly #memory: NativeMemory

  constructor(calls: Syscalls) {
    this.#calls = calls
    this.#memory = calls.allocate(headerSize + mostInstructions * instructionSize)
  }

  /** By the client's address, for the whole group of which `fd` is one; 0 or -errno. */
  byClient(fd: number, family: IpFamily, sockets: number): number {
    return this.#attach(fd, steeringProgram(family, sockets))
  }

  /** All to one of the sockets, by its place in the order in which they were opened. */
  toOne(fd: number, index: number): number {
    return this.#attach(fd, [[returnConstant, index]])
  }

  #attach(fd: number, program: readonly Instruction[]): number {
    const { view, address } = this.#memory
    view.setUint16(0, program.length, true)
    view.setBigUint64(8, BigInt(address + headerSize), true)
    for (const [i, [code, value]] of program.entries()) {
      const at = headerSize + i * instructionSize
      view.setUint16(at, code, true)
      view.setUint16(at + 2, 0, true)
      view.setUint32(at + 4, value >>> 0, true)
    }
    return this.#set(fd, SO_ATTACH_REUSEPORT_CBPF, headerSize)
  }

  /** As the kernel likes. */
  release(fd: number): number {
    this.#memory.view.setInt32(0, 0, true)
    return this.#set(fd, SO_DETACH_REUSEPORT_BPF, 4)
  }

  #set(fd: number, option: number, length: number): number {
    return this.#calls.setsockopt(fd, SOL_SOCKET, option, this.#memory.address, length)
  }
}
