import { connect, createServer, type Server } from 'node:net'
import { type Clock, within } from '../../util/clock.ts'

export interface HostLockDeps {
  readonly clock: Clock
  /** How this process names itself to others that wait, as in `usher 1.2.3, pid 4711`. */
  readonly self: string
  /** Called once with the holder of the lock, when it has to be waited for. */
  readonly waiting: (holder: string) => void
  /** By default the one that all Ushers have; another for tests. */
  readonly name?: string
}

/**
 * Held by the one Usher of a network namespace that writes rules: two would take each
 * other's away.
 */
export interface HostLock {
  /**
   * Waits for as long as another process holds it, looking every 200 ms. True when it is
   * held; false when `release` was called meanwhile. Rejects when it can't be taken at all.
   */
  acquire(): Promise<boolean>
  /** Ends the waiting, too. It may be acquired once more. */
  release(): Promise<void>
}

const defaultName = 'usher-capture'
/** Of who leads clients as they connect, beside any mode or capture. */
export const connectTimeLock = 'usher-connect-time'
/**
 * Bytes of `sun_path`. Before version 22 Node fills abstract names up with zeros: with all of them
 * given the name is the same with any Node, so that none holds the lock beside another.
 */
const wholePath = 108
const tryEveryMs = 200
const answerWithinMs = 1000
/** Longest name of a holder that is shown. */
const mostName = 200

/**
 * An abstract socket (unix(7)): there is one of a name in each network namespace, it needs
 * no directory, and it goes with its process, however that ends.
 */
export class SocketLock implements HostLock {
  readonly #deps: HostLockDeps
  readonly #path: string
  #server: Server | undefined
  #released = false
  #wake: () => void = () => {}

  constructor(deps: HostLockDeps) {
    this.#deps = deps
    this.#path = `\0${deps.name ?? defaultName}`.padEnd(wholePath, '\0')
  }

  async acquire(): Promise<boolean> {
    // Rules are Linux's, and so are abstract sockets.
    if (process.platform !== 'linux') return true
    this.#released = false
    let isReported = false
    while (!this.#released) {
      const server = await listen(this.#path, this.#deps.self)
      if (server !== undefined) return this.#keep(server)
      if (!isReported) {
        const holder = await askHolder(this.#path, this.#deps.clock)
        // It may have gone just then.
        if (holder !== undefined) {
          isReported = true
          this.#deps.waiting(holder)
        }
      }
      await this.#pause()
    }
    return false
  }

  async release(): Promise<void> {
    this.#released = true
    this.#wake()
    const server = this.#server
    this.#server = undefined
    if (server !== undefined) await closed(server)
  }

  async #keep(server: Server): Promise<boolean> {
    if (this.#released) {
      await closed(server)
      return false
    }
    this.#server = server
    return true
  }

  async #pause(): Promise<void> {
    const woken = new Promise<void>(resolve => {
      if (this.#released) resolve()
      this.#wake = resolve
    })
    await within(this.#deps.clock, tryEveryMs, woken)
  }
}

const closed = (server: Server): Promise<void> =>
  new Promise(resolve => void server.close(() => resolve()))

/** Undefined when another process listens there. */
const listen = (path: string, self: string): Promise<Server | undefined> =>
  new Promise((resolve, reject) => {
    const server = createServer(socket => {
      socket.on('error', () => {}) // The one that asked has gone; nothing else is lost.
      socket.end(`${self}\n`, () => socket.destroy())
    })
    // Any process in the namespace may connect, and is answered at once.
    server.maxConnections = 16
    server.unref()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined)
      else reject(new Error(`can't lock the capture: ${error.message}`, { cause: error }))
    })
    server.listen({ path, exclusive: true }, () => resolve(server))
  })

/** Undefined when no process listens there any more. */
const askHolder = (path: string, clock: Clock): Promise<string | undefined> =>
  new Promise(resolve => {
    let text = ''
    const socket = connect({ path })
    const done = (holder: string | undefined): void => {
      clock.clearTimeout(timer)
      socket.destroy()
      resolve(holder)
    }
    const unnamed = 'a process that does not say who it is'
    const answer = (): void => done(shown(text) || unnamed)
    const timer = clock.setTimeout(answer, answerWithinMs)
    socket.setEncoding('utf8')
    socket.on('data', chunk => {
      text += String(chunk)
      if (text.length >= mostName || text.includes('\n')) answer()
    })
    socket.once('end', answer)
    socket.once('error', (error: NodeJS.ErrnoException) =>
      done(error.code === 'ECONNREFUSED' ? undefined : unnamed),
    )
  })

/** It goes to the log, and any process may have written it. */
const shown = (text: string): string =>
  text
    .slice(0, mostName)
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
