import { connect, type Socket } from 'node:net'
import type { Endpoint } from '../services.ts'
import { errorName } from './load.ts'

/** The answer, once what has been heard holds it; throws for what is no answer. */
type Read = (heard: Buffer) => string | undefined

/** A connection on which one question at a time is asked. */
export class Session {
  readonly #socket: Socket
  #heard = Buffer.alloc(0)
  #progress: () => void = () => undefined
  #failure = ''

  constructor({ address, port }: Endpoint) {
    this.#socket = connect({ host: address, port, noDelay: true })
    this.#socket.on('data', heard => {
      this.#heard = Buffer.concat([this.#heard, heard])
      this.#progress()
    })
    this.#socket.on('error', error => this.#fail(errorName(error)))
    this.#socket.on('close', () => this.#fail('closed early'))
    this.#socket.on('end', () => this.#fail('closed early'))
  }

  /** Rejects with the reason in a word or two, `timeout` after `timeoutMs`. */
  ask(question: string | Buffer, read: Read, timeoutMs: number): Promise<string> {
    this.#heard = Buffer.alloc(0)
    if (question.length > 0 && this.#failure === '') this.#socket.write(question)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail('timeout'), timeoutMs)
      this.#progress = () => {
        const answer = this.#answer(read)
        if (answer === undefined && this.#failure === '') return
        clearTimeout(timer)
        this.#progress = () => undefined
        if (answer === undefined) reject(new Error(this.#failure))
        else resolve(answer)
      }
      this.#progress()
    })
  }

  end(lastWords: string | Buffer): void {
    if (lastWords.length > 0 && this.#failure === '') this.#socket.write(lastWords)
    // At once, so that nothing of it is left for the end of the load.
    this.#socket.destroySoon()
  }

  #answer(read: Read): string | undefined {
    try {
      return read(this.#heard)
    } catch (error) {
      this.#failure = errorName(error)
      return undefined
    }
  }

  #fail(failure: string): void {
    this.#failure ||= failure
    this.#progress()
    if (failure === 'timeout') this.#socket.destroy()
  }
}
