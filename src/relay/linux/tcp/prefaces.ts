import { mostPrefaceBytes, noRules, prefaceMs, type Preface } from '../../preface.ts'
import type { Cause } from '../../cause.ts'
import type { Counted } from '../../connection-limiter.ts'
import {
  EPOLLERR,
  EPOLLHUP,
  EPOLLRDHUP,
  MSG_NOSIGNAL,
  MSG_PEEK,
} from '../../../ffi/constants.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'
import type { EventSource } from '../event-loop.ts'
import type { NativeMemory } from '../../../ffi/native-memory.ts'
import { sockaddrSize } from '../../../ffi/struct-layout.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { quietEvents } from './connection.ts'
import type { TcpService } from './tcp-service.ts'

/** A client that has to say something before an endpoint is chosen for it. */
export class PrefaceClient {
  readonly service: TcpService
  /** `bindKey` of the address that it has come to. */
  readonly key: string
  readonly fd: number
  /** It begins with a header of the PROXY protocol. */
  readonly hasHeader: boolean
  readonly acceptedAt: number
  /** Struct sockaddr of its socket's other end. */
  readonly peer: Int32Array
  /** All that was told of it. */
  events = 0
  hasSpoken = false
  /** How many of its requests were answered. */
  answered = 0
  /** Where it counts already, as it is known who it is. */
  counted: Counted | undefined = undefined

  constructor(
    service: TcpService,
    key: string,
    fd: number,
    hasHeader: boolean,
    { words }: Pick<NativeMemory, 'words'>,
    now: number,
  ) {
    this.service = service
    this.key = key
    this.fd = fd
    this.hasHeader = hasHeader
    this.peer = words.slice(0, sockaddrSize / 4)
    this.acceptedAt = now
  }
}

/** What becomes of them. */
export interface PrefaceEnds {
  /**
   * All of it is there; the header, if any, is read, and the rest is not. Returns why the client
   * is not served, '' when it is or may not be.
   */
  read(client: PrefaceClient, preface: Preface): string
  refused(client: PrefaceClient, cause: Cause, detail: string): void
}

/**
 * Reads what clients say first, where listeners ask for it. The kernel keeps it: it is looked at
 * (MSG_PEEK) until it is whole, and what is for the endpoint goes the usual way.
 */
export class Prefaces implements EventSource<PrefaceClient> {
  readonly #env: WorkerEnv
  readonly #ends: PrefaceEnds
  /** The oldest first. */
  readonly #all = new Set<PrefaceClient>()
  #buffer: NativeMemory | undefined

  constructor(env: WorkerEnv, ends: PrefaceEnds) {
    this.#env = env
    this.#ends = ends
  }

  begin(client: PrefaceClient): void {
    const { loop } = this.#env
    this.#all.add(client)
    client.service.begun()
    if (loop.add(client.fd, this, client, quietEvents) < 0)
      this.#refuse(client, 'RC', 'epoll_ctl')
  }

  ready(client: PrefaceClient, events: number): void {
    if (!this.#all.has(client)) return
    client.events |= events
    const bytes = this.#look(client)
    if (bytes === undefined) return
    client.hasSpoken ||= bytes.length > 0
    // By what holds now, as the choice that follows is.
    const rules = client.service.preface ?? noRules
    const found = rules.read(bytes, client.hasHeader, answers => {
      while (client.answered < answers.length) this.#answer(client, answers)
    })
    if (typeof found === 'string') this.#refuse(client, 'PH', found)
    else if (found !== undefined) this.#take(client, found)
    else if ((client.events & hangUp) !== 0) this.#left(client, 'closed')
  }

  failed(client: PrefaceClient, error: unknown): void {
    this.#env.observer.fault(client.service.name, error)
    if (this.#all.has(client)) this.#refuse(client, 'KD', 'internal fault')
  }

  /** Ends those of a ServicePort; how many they were. */
  killAll(service: TcpService): number {
    const mine = [...this.#all].filter(client => client.service === service)
    for (const client of mine) this.#refuse(client, 'KD', 'drain time over')
    return mine.length
  }

  /** As a timer of the loop: until the oldest has had its time. */
  wait(now: number): number {
    for (const { acceptedAt } of this.#all)
      return Math.max(0, acceptedAt + prefaceMs - now)
    return Number.POSITIVE_INFINITY
  }

  run(now: number): void {
    for (const client of this.#all) {
      if (client.acceptedAt + prefaceMs > now) return
      this.#refuse(client, 'PH', `not whole after ${prefaceMs / 1000} s`)
    }
  }

  /** One byte; when it can't be sent the client is gone, and an event follows. */
  #answer(client: PrefaceClient, answers: string): void {
    const { bytes, address } = this.#memory
    bytes.write(answers.charAt(client.answered), mostPrefaceBytes, 'latin1')
    client.answered += 1
    this.#env.calls.send(client.fd, address + mostPrefaceBytes, 1, MSG_NOSIGNAL)
  }

  /** For what has come, and an answer of one byte. */
  get #memory(): NativeMemory {
    return (this.#buffer ??= this.#env.calls.allocate(mostPrefaceBytes + 1))
  }

  /** What has come so far; undefined: it is not known now, or the client is gone. */
  #look(client: PrefaceClient): Buffer | undefined {
    const { address, bytes } = this.#memory
    const count = this.#env.calls.recv(client.fd, address, mostPrefaceBytes, MSG_PEEK)
    if (count >= 0) return bytes.subarray(0, count)
    if (count === -errno.EINTR) this.#env.loop.again(this, client)
    else if (count !== -errno.EAGAIN) this.#left(client, errnoName(count))
    else if ((client.events & (EPOLLERR | EPOLLHUP)) !== 0)
      this.#left(client, 'ECONNRESET')
    return undefined
  }

  #take(client: PrefaceClient, preface: Preface): void {
    const { headerBytes } = preface
    if (headerBytes > 0) {
      const gone = this.#env.calls.recv(client.fd, this.#memory.address, headerBytes, 0)
      if (gone !== headerBytes) return this.#left(client, 'closed')
    }
    // Should it throw the client is still here, and `failed` ends it.
    const failure = this.#ends.read(client, preface)
    this.#all.delete(client)
    client.service.ended(failure)
  }

  /** Who has said nothing has only looked whether somebody listens. */
  #left(client: PrefaceClient, detail: string): void {
    this.#refuse(client, client.hasSpoken ? 'PH' : 'CC', detail)
  }

  #refuse(client: PrefaceClient, cause: Cause, detail: string): void {
    this.#all.delete(client)
    try {
      this.#ends.refused(client, cause, detail)
    } finally {
      client.service.ended(cause === 'CC' ? '' : detail)
    }
  }
}

const hangUp = EPOLLERR | EPOLLHUP | EPOLLRDHUP
