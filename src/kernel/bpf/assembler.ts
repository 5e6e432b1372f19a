import { codes, type Instruction, type Program, type Size, sizes } from './instruction.ts'

/** Where a stack ends: its bytes are below, down to -512. */
export const stack = 10

/** Writes a program instruction by instruction; jumps go to labels. Each method returns it. */
export class Assembler {
  readonly #instructions: Instruction[] = []
  readonly #labels = new Map<string, number>()
  readonly #jumps: { readonly at: number; readonly label: string }[] = []

  label(name: string): this {
    if (this.#labels.has(name)) throw new Error(`label ${name} is there twice`)
    this.#labels.set(name, this.#instructions.length)
    return this
  }

  move(to: number, from: number): this {
    return this.#add({ code: codes.move, to, from })
  }

  /** A number of 32 bits with its sign. */
  set(to: number, value: number): this {
    return this.#add({ code: codes.set, to, value })
  }

  setWide(to: number, value: bigint): this {
    const low = Number(BigInt.asIntN(32, value))
    const high = Number(BigInt.asIntN(32, value >> 32n))
    return this.#add({ code: codes.wide, to, value: low }).#add({ value: high })
  }

  addValue(to: number, value: number): this {
    return this.#add({ code: codes.addValue, to, value })
  }

  add(to: number, from: number): this {
    return this.#add({ code: codes.add, to, from })
  }

  subtract(to: number, from: number): this {
    return this.#add({ code: codes.subtract, to, from })
  }

  multiplyValue(to: number, value: number): this {
    return this.#add({ code: codes.multiplyValue, to, value })
  }

  orValue(to: number, value: number): this {
    return this.#add({ code: codes.orValue, to, value })
  }

  andValue(to: number, value: number): this {
    return this.#add({ code: codes.andValue, to, value })
  }

  shiftRight(to: number, bits: number): this {
    return this.#add({ code: codes.shiftRightValue, to, value: bits })
  }

  negate(to: number): this {
    return this.#add({ code: codes.negate, to })
  }

  /** Of the lower 32 bits, without sign. */
  modulo32(to: number, from: number): this {
    return this.#add({ code: codes.modulo32, to, from })
  }

  load(size: Size, to: number, from: number, offset: number): this {
    return this.#add({ code: codes.load | sizes[size], to, from, offset })
  }

  store(size: Size, to: number, offset: number, from: number): this {
    return this.#add({ code: codes.store | sizes[size], to, from, offset })
  }

  storeValue(size: Size, to: number, offset: number, value: number): this {
    return this.#add({
      code: codes.storeValue | sizes[size],
      to,
      offset,
      value: value | 0,
    })
  }

  /** To 64 bits of a map's value, in one step for all processors. */
  addInMemory(to: number, offset: number, from: number): this {
    return this.#add({ code: codes.addInMemory, to, offset, from })
  }

  jump(label: string): this {
    return this.#jump({ code: codes.jump }, label)
  }

  ifEqual(to: number, value: number, label: string): this {
    return this.#jump({ code: codes.ifEqualValue, to, value }, label)
  }

  ifNotEqual(to: number, value: number, label: string): this {
    return this.#jump({ code: codes.ifNotEqualValue, to, value }, label)
  }

  ifDiffer(to: number, from: number, label: string): this {
    return this.#jump({ code: codes.ifNotEqual, to, from }, label)
  }

  /** Without sign, as `ifAboveOther`. */
  ifAbove(to: number, value: number, label: string): this {
    return this.#jump({ code: codes.ifAboveValue, to, value }, label)
  }

  ifAboveOther(to: number, from: number, label: string): this {
    return this.#jump({ code: codes.ifAbove, to, from }, label)
  }

  /** One of the kernel's functions (bpf-helpers(7)). Changes registers 0 to 5. */
  call(helper: number): this {
    return this.#add({ code: codes.call, value: helper })
  }

  exit(): this {
    return this.#add({ code: codes.exit })
  }

  map(to: number, map: string): this {
    return this.#add({ code: codes.wide, to, from: 1, map }).#add({})
  }

  stackAddress(to: number, offset: number): this {
    return this.move(to, stack).addValue(to, offset)
  }

  /** Throws when a label is missing. */
  program(): Program {
    const program = [...this.#instructions]
    for (const { at, label } of this.#jumps) {
      const target = this.#labels.get(label)
      const jump = program[at]
      if (target === undefined || jump === undefined) throw new Error(`no label ${label}`)
      program[at] = { ...jump, offset: target - at - 1 }
    }
    return program
  }

  #jump(instruction: Partial<Instruction>, label: string): this {
    this.#jumps.push({ at: this.#instructions.length, label })
    return this.#add(instruction)
  }

  #add(instruction: Partial<Instruction>): this {
    const nothing = { code: 0, to: 0, from: 0, offset: 0, value: 0 }
    this.#instructions.push({ ...nothing, ...instruction })
    return this
  }
}
