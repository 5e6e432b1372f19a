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

  readonly move = this.#ofRegisters(codes.move)
  readonly add = this.#ofRegisters(codes.add)
  readonly subtract = this.#ofRegisters(codes.subtract)
  /** Of the lower 32 bits, without sign. */
  readonly modulo32 = this.#ofRegisters(codes.modulo32)
  /** A number of 32 bits with its sign. */
  readonly set = this.#ofValue(codes.set)
  readonly addValue = this.#ofValue(codes.addValue)
  readonly multiplyValue = this.#ofValue(codes.multiplyValue)
  readonly orValue = this.#ofValue(codes.orValue)
  readonly shiftRight = this.#ofValue(codes.shiftRightValue)
  readonly ifEqual = this.#jumpByValue(codes.ifEqualValue)
  readonly ifNotEqual = this.#jumpByValue(codes.ifNotEqualValue)
  /** Without sign, as `ifAboveOther`. */
  readonly ifAbove = this.#jumpByValue(codes.ifAboveValue)
  readonly ifDiffer = this.#jumpByRegister(codes.ifNotEqual)
  readonly ifAboveOther = this.#jumpByRegister(codes.ifAbove)

  setWide(to: number, value: bigint): this {
    const low = Number(BigInt.asIntN(32, value))
    const high = Number(BigInt.asIntN(32, value >> 32n))
    return this.#add({ code: codes.wide, to, value: low }).#add({ value: high })
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

  #ofValue(code: number): (to: number, value: number) => this {
    return (to, value) => this.#add({ code, to, value })
  }

  #ofRegisters(code: number): (to: number, from: number) => this {
    return (to, from) => this.#add({ code, to, from })
  }

  #jumpByValue(code: number): (to: number, value: number, label: string) => this {
    return (to, value, label) => this.#jump({ code, to, value }, label)
  }

  #jumpByRegister(code: number): (to: number, from: number, label: string) => this {
    return (to, from, label) => this.#jump({ code, to, from }, label)
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
