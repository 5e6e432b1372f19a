import { closeSync } from 'node:fs'
import { type BpfCall, loadBpfCall } from '../../ffi/bpf-call.ts'
import { errno, systemError } from '../../ffi/errno.ts'
import type { NativeMemory } from '../../ffi/syscalls.ts'
import { disassemble, encode, type Program } from './instruction.ts'

/** Of enum bpf_map_type. */
export const mapTypes = { hash: 1, lruHash: 9 } as const

export interface MapDefinition {
  /** At most 15 characters; tools show it. */
  readonly name: string
  readonly type: keyof typeof mapTypes
  /** Bytes. */
  readonly keySize: number
  readonly valueSize: number
  readonly entries: number
}

export interface ProgramDefinition {
  /** At most 15 characters; tools show it. */
  readonly name: string
  /** Of enum bpf_prog_type. */
  readonly type: number
  /** Of enum bpf_attach_type. */
  readonly attachType: number
  readonly program: Program
}

/** The kernel did not take a program: `message` has its verifier's last words. */
export class ProgramRefused extends Error {
  /** The whole log of the verifier. */
  readonly log: string
  readonly code: string

  constructor(name: string, code: string, log: string, program: Program) {
    const lines = log.trim().split('\n')
    const detail =
      lines.findLast(line => !/^(processed|verification time)/.test(line)) ?? ''
    // The verifier numbers what it looks at.
    const at = [...log.matchAll(/^(\d+): \(/gm)].at(-1)?.[1]
    const line = disassemble(program).find(each => each.startsWith(`${at}: `)) ?? ''
    super(
      `the kernel refused program ${name} (${code}): ${detail}${line && ` at ${line}`}`,
    )
    this.log = log
    this.code = code
  }
}

/** Commands of bpf(2), enum bpf_cmd. */
const commands = {
  mapCreate: 0,
  delete: 3,
  programLoad: 5,
  pin: 6,
  get: 7,
  programById: 13,
  info: 15,
  programsAt: 16,
  lookupBatch: 24,
  updateBatch: 26,
  linkCreate: 28,
  linkUpdate: 29,
} as const

/** Memory of a hash map is taken as it fills up. */
const noPrealloc = 1
/** Bytes for the log of the verifier. */
const logBytes = 1 << 18

/** The verifier stops for a signal, such as that of a child's end. */
const loadTries = 10

/** For paths and for programs, of which the kernel takes a million instructions; ours have hundreds. */
const scratchBytes = 65_536

/** Of union bpf_attr, in its order: of 32 bits, of 64, or a name. */
type Field = number | bigint | string
const nameBytes = 16

/** Objects of the kernel's BPF, by descriptors. Methods throw with the errno's name as `code`. */
export class Bpf {
  readonly #call: BpfCall
  /** Union bpf_attr. */
  readonly #attributes: NativeMemory
  /** What they lead to; memory that only the kernel knows of would be collected. */
  readonly #scratch: NativeMemory

  /** Throws where there is no FFI. */
  constructor(call: BpfCall = loadBpfCall()) {
    this.#call = call
    this.#attributes = call.allocate(128)
    this.#scratch = call.allocate(scratchBytes)
  }

  allocate(bytes: number): NativeMemory {
    return this.#call.allocate(bytes)
  }

  createMap({ name, type, keySize, valueSize, entries }: MapDefinition): number {
    const flags = type === 'hash' ? noPrealloc : 0
    const fields = [mapTypes[type], keySize, valueSize, entries, flags, 0, 0, name]
    return this.#must(`map ${name}`, commands.mapCreate, fields)
  }

  /** False where there was none. */
  delete(map: number, key: NativeMemory): boolean {
    const result = this.#do(commands.delete, [map, 0, BigInt(key.address)])
    if (result === -errno.ENOENT) return false
    if (result < 0) throw systemError('an element of a map', result)
    return true
  }

  /**
   * All elements, their bytes as latin1. The kernel gives whole buckets: what is there from the
   * start to the end comes once, whatever else comes and goes meanwhile.
   */
  *entries(
    map: number,
    { keySize, valueSize, entries }: MapDefinition,
    lotSize = 4096,
  ): Iterable<readonly [key: string, value: string]> {
    const position = this.allocate(Math.max(8, keySize))
    let most = Math.min(lotSize, entries)
    let keys = this.allocate(keySize * most)
    let values = this.allocate(valueSize * most)
    for (let start = 0, isLast = false; !isLast; start = position.address) {
      const places = [start, position.address, keys.address, values.address].map(BigInt)
      const result = this.#do(commands.lookupBatch, [...places, most, map])
      isLast = result === -errno.ENOENT
      // Not written where it fails for another reason than that it is at the end.
      const count = result >= 0 || isLast ? this.#attributes.bytes.readUInt32LE(32) : 0
      // A bucket has more elements: it is the next one again.
      if (result === -errno.ENOSPC) {
        most *= 2
        keys = this.allocate(keySize * most)
        values = this.allocate(valueSize * most)
      } else if (result < 0 && !isLast) throw systemError('elements of a map', result)
      for (let i = 0; i < count; i += 1)
        yield [
          keys.bytes.toString('latin1', i * keySize, (i + 1) * keySize),
          values.bytes.toString('latin1', i * valueSize, (i + 1) * valueSize),
        ]
    }
  }

  /** Keys one after the other, and their values in the same order. */
  updateBatch(
    map: number,
    keys: NativeMemory,
    values: NativeMemory,
    count: number,
  ): void {
    const places = [0, 0, keys.address, values.address].map(BigInt)
    this.#must('elements of a map', commands.updateBatch, [...places, count, map])
  }

  /** Throws ProgramRefused, with the verifier's words. */
  loadProgram(
    { name, type, attachType, program }: ProgramDefinition,
    mapDescriptor: (name: string) => number,
  ): number {
    const license = Buffer.from('GPL\0'.padEnd(8, '\0'))
    const address = this.#given(Buffer.concat([license, encode(program, mapDescriptor)]))
    const log = this.#call.allocate(logBytes)
    const what = [type, program.length, BigInt(address + license.length), BigInt(address)]
    const load = (level: 0 | 1): number => {
      const logArguments =
        level === 0 ? [0, 0, 0n] : [level, logBytes, BigInt(log.address)]
      const rest = [0, 0, name, 0, attachType]
      return this.#do(commands.programLoad, [...what, ...logArguments, ...rest])
    }
    let descriptor = load(0)
    for (let left = loadTries; descriptor === -errno.EAGAIN && left > 0; left -= 1)
      descriptor = load(0)
    if (descriptor >= 0) return descriptor
    // Once more, for the verifier's log: writing it costs time.
    load(1)
    const verifierLog = log.bytes.toString('latin1', 0, log.bytes.indexOf(0))
    const { code = '' } = systemError(name, descriptor)
    throw new ProgramRefused(name, code, verifierLog, program)
  }

  /** Attaches a program to a cgroup, beside others; until the link is closed and not pinned. */
  createLink(program: number, cgroup: number, attachType: number): number {
    const fields = [program, cgroup, attachType]
    return this.#must('to attach a program', commands.linkCreate, fields)
  }

  /** Puts another program in the place of a link's, in one step. */
  updateLink(link: number, program: number): void {
    this.#must('to replace a program', commands.linkUpdate, [link, program])
  }

  /** Gives it a file in a bpffs, which keeps it. */
  pin(descriptor: number, path: string): void {
    const address = this.#given(Buffer.from(`${path}\0`))
    this.#must(path, commands.pin, [BigInt(address), descriptor])
  }

  /** Undefined where there is no such file. */
  pinned(path: string): number | undefined {
    const address = this.#given(Buffer.from(`${path}\0`))
    const result = this.#do(commands.get, [BigInt(address)])
    if (result === -errno.ENOENT) return undefined
    if (result < 0) throw systemError(path, result)
    return result
  }

  /** Whether a link leads somewhere: a cgroup that goes takes its programs with it. */
  isAttached(link: number): boolean {
    return this.#info(link, 32).readBigUInt64LE(16) !== 0n
  }

  /** Numbers of the programs that run for a cgroup at a hook, those of its parents too. */
  programsAt(cgroup: number, attachType: number): readonly number[] {
    const most = 64
    const queryEffective = 1
    const query = [cgroup, attachType, queryEffective, 0]
    const room = [BigInt(this.#scratch.address), most]
    this.#must('the programs of a cgroup', commands.programsAt, [...query, ...room])
    const count = Math.min(this.#attributes.bytes.readUInt32LE(24), most)
    return Array.from({ length: count }, (_, i) =>
      this.#scratch.view.getUint32(i * 4, true),
    )
  }

  /** Its name, of at most 15 characters. Takes CAP_SYS_ADMIN. Undefined where it has gone. */
  programName(id: number): string | undefined {
    const descriptor = this.#do(commands.programById, [id])
    if (descriptor === -errno.ENOENT) return undefined
    if (descriptor < 0) throw systemError('the name of a program', descriptor)
    try {
      const name = this.#info(descriptor, 80).subarray(64, 80)
      return name.toString('latin1', 0, name.indexOf(0))
    } finally {
      this.close(descriptor)
    }
  }

  /** The first bytes of a struct bpf_link_info or bpf_prog_info, until the next call of this. */
  #info(descriptor: number, length: number): Buffer {
    const info = this.#scratch.bytes.subarray(0, length).fill(0)
    const fields = [descriptor, length, BigInt(this.#scratch.address)]
    this.#must('what an object is', commands.info, fields)
    return info
  }

  close(descriptor: number): void {
    closeSync(descriptor)
  }

  /** The address where the kernel finds these bytes, until the next call of this. */
  #given(bytes: Buffer): number {
    if (bytes.length > scratchBytes) throw new Error(`${bytes.length} bytes are too many`)
    bytes.copy(this.#scratch.bytes)
    return this.#scratch.address
  }

  #must(what: string, command: number, fields: readonly Field[]): number {
    const result = this.#do(command, fields)
    if (result < 0) throw systemError(what, result)
    return result
  }

  #do(command: number, fields: readonly Field[]): number {
    const { bytes, address } = this.#attributes
    bytes.fill(0)
    let at = 0
    for (const field of fields)
      if (typeof field === 'number') at = bytes.writeUInt32LE(field, at)
      else if (typeof field === 'bigint') at = bytes.writeBigUInt64LE(field, at)
      else {
        bytes.write(field.slice(0, nameBytes - 1), at)
        at += nameBytes
      }
    return this.#call.call(command, address, at)
  }
}
