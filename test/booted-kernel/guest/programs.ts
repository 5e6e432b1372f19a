import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import type { Log, Ran } from './protocol.ts'

/** Runs a program to its end. */
export const run = (command: string, args: readonly string[]): Promise<Ran> =>
  new Promise(resolve => {
    const child = execFile(command, args, { maxBuffer: 1 << 24 }, (error, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err: err || (error?.message ?? '') }),
    )
  })

interface Program {
  readonly child: ChildProcess
  /** Tells of more text, and of the end. */
  readonly changes: EventEmitter
  text: string
  code?: number
}

/** Programs that go on while others run, by number. */
export class Programs {
  readonly #all: Program[] = []

  launch(command: string, args: readonly string[]): number {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const program: Program = { child, text: '', changes: new EventEmitter() }
    const write = (chunk: Buffer | string): void => {
      program.text += String(chunk)
      program.changes.emit('change')
    }
    child.stdout.on('data', write)
    child.stderr.on('data', write)
    child.once('error', error => write(error.message))
    child.once('close', code => {
      program.code = code ?? -1
      program.changes.emit('change')
    })
    return this.#all.push(program) - 1
  }

  log(number: number): Log {
    const { text, code } = this.#get(number)
    return { text, ...(code === undefined ? {} : { code }) }
  }

  /** Its log once that contains the text, or it has ended. */
  async said(number: number, text: string): Promise<Log> {
    const program = this.#get(number)
    while (!program.text.includes(text) && program.code === undefined)
      await once(program.changes, 'change')
    return this.log(number)
  }

  /** Waits until it has ended. */
  async end(number: number, signal: NodeJS.Signals): Promise<Log> {
    const program = this.#get(number)
    program.child.kill(signal)
    while (program.code === undefined) await once(program.changes, 'change')
    return this.log(number)
  }

  #get(number: number): Program {
    const program = this.#all[number]
    if (program === undefined) throw new Error(`no program ${number} was launched`)
    return program
  }
}
