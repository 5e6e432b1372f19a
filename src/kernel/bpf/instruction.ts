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

/**
 * Codes of instructions, and what the kernel's verifier writes of them; `load`, `store` and
 * `storeValue` without their size.
 */
const instructions = {
  load: [0x61, 'r$to = *($size *)(r$from $offset)'],
  store: [0x63, '*($size *)(r$to $offset) = r$from'],
  storeValue: [0x62, '*($size *)(r$to $offset) = $value'],
  /** Atomic; of 64 bits, and what it was is not given back. */
  addInMemory: [0xdb, 'lock *(u64 *)(r$to $offset) += r$from'],
  move: [0xbf, 'r$to = r$from'],
  set: [0xb7, 'r$to = $value'],
  addValue: [0x07, 'r$to += $value'],
  add: [0x0f, 'r$to += r$from'],
  subtract: [0x1f, 'r$to -= r$from'],
  multiplyValue: [0x27, 'r$to *= $value'],
  orValue: [0x47, 'r$to |= $value'],
  shiftRightValue: [0x77, 'r$to >>= $value'],
  modulo32: [0x9c, 'w$to %= w$from'],
  jump: [0x05, 'goto $target'],
  ifEqualValue: [0x15, 'if r$to == $value goto $target'],
  ifNotEqualValue: [0x55, 'if r$to != $value goto $target'],
  ifNotEqual: [0x5d, 'if r$to != r$from goto $target'],
  ifAboveValue: [0x25, 'if r$to > $value goto $target'],
  ifAbove: [0x2d, 'if r$to > r$from goto $target'],
  call: [0x85, 'call $value'],
  exit: [0x95, 'exit'],
  /** A 64-bit value, or a map where `from` is 1; the next 8 bytes have its upper half. */
  wide: [0x18, 'r$to = $wide'],
} as const

type Codes = { readonly [K in keyof typeof instructions]: (typeof instructions)[K][0] }

export const codes = Object.fromEntries(
  Object.entries(instructions).map(([name, [code]]) => [name, code]),
) as Codes

/** A line for each instruction, as the kernel's verifier writes them, with its number. */
export const disassemble = (program: Program): readonly string[] =>
  program.flatMap((instruction, at) => {
    const isRest = at > 0 && program[at - 1]?.code === codes.wide
    return isRest ? [] : [`${at}: ${textOf(instruction, at)}`]
  })

const textOf = (instruction: Instruction, at: number): string => {
  const { code, offset, value, map } = instruction
  const all = Object.values(instructions)
  const sized = code & ~sizes.u64
  const [, text = `unknown code 0x${code.toString(16)} ${map ?? ''}`.trim()] =
    all.find(([each]) => each === code) ??
    all.find(([each, words]) => each === sized && words.includes('$size')) ??
    []
  const words: Readonly<Record<string, string | number | undefined>> = {
    ...instruction,
    size: Object.entries(sizes).find(([, bits]) => bits === (code & sizes.u64))?.[0],
    offset: offset < 0 ? offset : `+${offset}`,
    target: at + 1 + offset,
    wide: map === undefined ? `${value} (lower half)` : `map ${map}`,
  }
  return text.replaceAll(/\$(\w+)/g, (_, word: string) => String(words[word]))
}

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
