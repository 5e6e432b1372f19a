/**
 * An instruction of the kernel's BPF machine (Documentation/bpf/standardization/instruction-set.rst):
 * 8 bytes, of which some take a second 8 for a 64-bit value.
 */
export interface Instruction {
  readonly code: number
  /** Registers, 0 to 10. */
  readonly to: number
  readonly from: number
  /** Of memory, or of a jump: instructions from the next one on. */
  readonly offset: number
  readonly value: number
  /** The map whose descriptor comes into `value` when it is loaded. */
  readonly map?: string
}

/** What the kernel is to run, before it is known by which descriptors its maps go. */
export type Program = readonly Instruction[]

/** Bytes that are read or written at once, and their bits in an instruction's code. */
export const sizes = { u8: 0x10, u16: 0x08, u32: 0x00, u64: 0x18 } as const
export type Size = keyof typeof sizes

/** Codes of instructions; `load`, `store` and `storeValue` without their size. */
export const codes = {
  load: 0x61,
  store: 0x63,
  storeValue: 0x62,
  /** Atomic; of 64 bits, and what it was is not given back. */
  addInMemory: 0xdb,
  move: 0xbf,
  set: 0xb7,
  addValue: 0x07,
  add: 0x0f,
  subtract: 0x1f,
  multiplyValue: 0x27,
  orValue: 0x47,
  shiftRightValue: 0x77,
  modulo32: 0x9c,
  jump: 0x05,
  ifEqualValue: 0x15,
  ifNotEqualValue: 0x55,
  ifNotEqual: 0x5d,
  ifAboveValue: 0x25,
  ifAbove: 0x2d,
  call: 0x85,
  exit: 0x95,
  /** A 64-bit value, or a map where `from` is 1; the next 8 bytes have its upper half. */
  wide: 0x18,
} as const

/** `mapDescriptor` is asked for each map by its name. */
export const encode = (
  program: Program,
  mapDescriptor: (name: string) => number,
): Buffer => {
  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(({ code, to, from, offset, value, map }, at) => {
    bytes[at * 8] = code
    bytes[at * 8 + 1] = to | (from << 4)
    bytes.writeInt16LE(offset, at * 8 + 2)
    bytes.writeInt32LE(map === undefined ? value : mapDescriptor(map), at * 8 + 4)
  })
  return bytes
}
