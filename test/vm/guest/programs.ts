import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Log, Ran } from './protocol.ts'

/** Runs a program to its end. */
export const run = (command: string, args: readonly string[]): Promise<Ran> =>
  new Promise(resolve => {
    const child = execFile(command, args, { maxBuffer: 1 << 24 }, (error, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err: err || (error?.message ?? '') }),
    )
  })

/** Programs that go on while others run, by number. */
export class Programs {
  readonly #all: { readonly child: ChildProcess; text: string; code?: number }[] = []

  launch(command: string, args: readonly string[]): number {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const program: (typeof this.#all)[number] = { child, text: '' }
    const write = (chunk: Buffer | string): void => void (program.text += String(chunk))
    child.stdout.on('data', write)
    child.stderr.on('data', write)
    child.once('error', error => write(error.message))
    child.once('close', code => (program.code = code ?? -1))
    return this.#all.push(program) - 1
  }

  log(number: number): Log {
    const { text, code } = this.#get(number)
    return { text, ...(code === undefined ? {} : { code }) }
  }

  /** Waits until it has ended. */
  async end(number: number, signal: NodeJS.Signals): Promise<Log> {
    const program = this.#get(number)
    program.child.kill(signal)
    if (program.code === undefined) await once(program.child, 'close')
    return this.log(number)
  }

  #get(number: number): (typeof this.#all)[number] {
    const program = this.#all[number]
    if (program === undefined) throw new Error(`no program ${number} was launched`)
    return program
  }
}
