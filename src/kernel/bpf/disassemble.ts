import { codes, type Instruction, type Program, type Size, sizes } from './instruction.ts'

/** A line for each instruction, as the kernel's verifier writes them, with its number. */
export const disassemble = (program: Program): readonly string[] =>
  program.flatMap((instruction, at) => {
    const isRest = at > 0 && program[at - 1]?.code === codes.wide
    return isRest ? [] : [`${at}: ${textOf(instruction, at)}`]
  })

const textOf = (instruction: Instruction, at: number): string => {
  const { code, to, from, offset, value, map } = instruction
  const write = texts[code]
  if (write !== undefined) return write(instruction, at + 1 + offset)
  const size = sizeOf(code)
  switch (code & ~sizes.u64) {
    case codes.load:
      return `r${to} = *(${size} *)(r${from} ${signed(offset)})`
    case codes.store:
      return `*(${size} *)(r${to} ${signed(offset)}) = r${from}`
    case codes.storeValue:
      return `*(${size} *)(r${to} ${signed(offset)}) = ${value}`
    default:
      return `unknown code 0x${code.toString(16)} ${map ?? ''}`.trim()
  }
}

type Write = (instruction: Instruction, target: number) => string

const texts: Readonly<Record<number, Write>> = {
  [codes.move]: ({ to, from }) => `r${to} = r${from}`,
  [codes.set]: ({ to, value }) => `r${to} = ${value}`,
  [codes.addValue]: ({ to, value }) => `r${to} += ${value}`,
  [codes.add]: ({ to, from }) => `r${to} += r${from}`,
  [codes.subtract]: ({ to, from }) => `r${to} -= r${from}`,
  [codes.multiplyValue]: ({ to, value }) => `r${to} *= ${value}`,
  [codes.orValue]: ({ to, value }) => `r${to} |= ${value}`,
  [codes.shiftRightValue]: ({ to, value }) => `r${to} >>= ${value}`,
  [codes.modulo32]: ({ to, from }) => `w${to} %= w${from}`,
  [codes.addInMemory]: ({ to, offset, from }) =>
    `lock *(u64 *)(r${to} ${signed(offset)}) += r${from}`,
  [codes.jump]: (_, target) => `goto ${target}`,
  [codes.ifEqualValue]: ({ to, value }, target) => `if r${to} == ${value} goto ${target}`,
  [codes.ifNotEqualValue]: ({ to, value }, target) =>
    `if r${to} != ${value} goto ${target}`,
  [codes.ifNotEqual]: ({ to, from }, target) => `if r${to} != r${from} goto ${target}`,
  [codes.ifAboveValue]: ({ to, value }, target) => `if r${to} > ${value} goto ${target}`,
  [codes.ifAbove]: ({ to, from }, target) => `if r${to} > r${from} goto ${target}`,
  [codes.call]: ({ value }) => `call ${value}`,
  [codes.exit]: () => 'exit',
  [codes.wide]: ({ to, value, map }) =>
    `r${to} = ${map === undefined ? `${value} (lower half)` : `map ${map}`}`,
}

const sizeOf = (code: number): Size | undefined =>
  (Object.keys(sizes) as Size[]).find(size => sizes[size] === (code & sizes.u64))

const signed = (offset: number): string => (offset < 0 ? `${offset}` : `+${offset}`)
