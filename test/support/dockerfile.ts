import { readFileSync } from 'node:fs'
import { top } from './deploy.ts'

export interface Instruction {
  /** As `COPY`. */
  readonly name: string
  readonly rest: string
}

export interface Stage {
  readonly name: string
  /** The image or stage that it is built on; what is an ARG is the default of that. */
  readonly base: string
  readonly instructions: readonly Instruction[]
}

const text = readFileSync(`${top}Dockerfile`, 'utf8')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')

const parsed = Array.from(
  text.matchAll(/^([A-Z]+) (.*)$/gm),
  ([, name = '', rest = '']): Instruction => ({ name, rest }),
)

/** Arguments before the first stage, with their defaults. */
export const baseImages = new Map(
  parsed
    .slice(
      0,
      parsed.findIndex(({ name }) => name === 'FROM'),
    )
    .map(({ rest }): [string, string] => {
      const [name = '', image = ''] = rest.split('=')
      return [name, image]
    }),
)

/** The Dockerfile's stages, in their order. */
export const stages: readonly Stage[] = parsed
  .flatMap(({ name }, at) => (name === 'FROM' ? [at] : []))
  .map((from, index, all) => {
    const [base = '', , name = ''] = (parsed[from]?.rest ?? '').split(' ')
    return {
      name,
      base: base.replace(/^\$\{(\w+)\}$/, (_, arg: string) => baseImages.get(arg) ?? ''),
      instructions: parsed.slice(from + 1, all[index + 1]),
    }
  })

/** Throws when there is none. */
export const stageNamed = (name: string): Stage => {
  const found = stages.find(stage => stage.name === name)
  if (found === undefined) throw new Error(`the Dockerfile has no stage ${name}`)
  return found
}

/** What a stage says by one instruction, as `COPY`. */
export const saidBy = (stage: Stage, instruction: string): string[] =>
  stage.instructions.flatMap(({ name, rest }) => (name === instruction ? [rest] : []))
