import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { AgentCall } from '../support/net/outcome.ts'
import type { NodeCall, Reply } from './guest/protocol.ts'

/** Something that is told what to do a line at a time, and answers so. */
export interface Callee {
  readonly stdin: Writable
  readonly stdout: Readable
}

interface Waiting {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

/** Calls that wait for their replies, each for a limited time. */
export class Calls {
  readonly #callee: Callee
  readonly #waiting = new Map<number, Waiting>()
  #last = 0
  #dead: Error | undefined

  constructor(callee: Callee) {
    this.#callee = callee
    callee.stdin.on('error', () => {})
    createInterface(callee.stdout).on('line', line => this.#settle(line))
  }

  /** The reply that nobody asked for: it is ready. */
  ready(limitMs: number): Promise<unknown> {
    return this.#replyTo(0, 'to be ready', limitMs)
  }

  call(call: NodeCall | AgentCall, limitMs: number): Promise<unknown> {
    this.#last += 1
    const text = JSON.stringify({ id: this.#last, call })
    const reply = this.#replyTo(this.#last, text.slice(0, 200), limitMs)
    this.#callee.stdin.write(`${text}\n`)
    return reply
  }

  /** Nobody will reply any more. */
  fail(error: Error): void {
    this.#dead = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  #replyTo(id: number, what: string, limitMs: number): Promise<unknown> {
    if (this.#dead !== undefined) return Promise.reject(this.#dead)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id)
        reject(new Error(`no reply within ${limitMs} ms: ${what}`))
      }, limitMs)
      const settled =
        <T>(settle: (value: T) => void) =>
        (value: T): void => {
          clearTimeout(timer)
          settle(value)
        }
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject) })
    })
  }

  #settle(line: string): void {
    const { id, result, error } = JSON.parse(line) as Reply
    const { resolve, reject } = this.#waiting.get(id) ?? {}
    this.#waiting.delete(id)
    if (error === undefined) resolve?.(result)
    else reject?.(new Error(error))
  }
}
