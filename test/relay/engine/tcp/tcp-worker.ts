import { WorkerSigns } from '../../../../src/relay/engine/shared/worker-signs.ts'
import type { Test } from 'tap'
import * as c from '../../../../src/ffi/constants.ts'
import type { Order, Report } from '../../../../src/relay/engine/orders.ts'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'
import { Linger } from '../../../../src/relay/engine/linger.ts'
import {
  causes,
  counterCell,
  countersOf,
  type ListenerCounters,
} from '../../../../src/relay/counters.ts'
import { SharedEndpointState } from '../../../../src/relay/engine/shared/shared-endpoint-state.ts'
import {
  endpointCell,
  StatsPages,
} from '../../../../src/relay/engine/shared/stats-pages.ts'
import type { Syscalls, NativeMemory } from '../../../../src/ffi/syscalls.ts'
import { RelayWorker } from '../../../../src/relay/engine/worker/relay-worker.ts'
import type { Cause, ConnectionRecord } from '../../../../src/relay/cause.ts'
import type {
  Bind,
  RelayFront,
  RelayLimits,
  RelayListener,
} from '../../../../src/relay/relay.ts'
import type { News } from '../../../../src/relay/remote/messages.ts'
import { testHost } from '../../../support/ports.ts'
import {
  defaultLimits,
  endpoint,
  frontOf,
  listenerSpec,
} from '../../../support/relay-fixture.ts'
import { Bench, flags, linuxParts } from '../calls-bench.ts'

export interface TcpWorkerRequest {
  readonly limits?: Partial<RelayLimits>
  /** Stands in for system calls of the worker, not of the test. */
  readonly over?: (calls: Syscalls) => Partial<Syscalls>
  readonly front?: Partial<RelayFront>
  readonly spec?: Partial<RelayListener>
  /** Where the endpoint is, when it is not the test's own. */
  readonly endpointAt?: Bind
  /** SO_SNDBUF and SO_RCVBUF of the four sockets of each connection. */
  readonly bufferBytes?: number
  /** All, if it is not said. */
  readonly wantedCauses?: readonly Cause[]
}

const stats = (cells: number): StatsPages => {
  const pages = new StatsPages(cells)
  pages.ensure(0)
  return pages
}

const endpointState = (): SharedEndpointState => {
  const pages = new SharedEndpointState()
  pages.ensure(0)
  return pages
}

/**
 * A worker with one TCP listener in the test's own thread: it moves only when the test
 * gives it a turn, so that what happens between two turns is the test's choice.
 */
export class TcpWorker {
  readonly bench: Bench
  readonly reports: Report[] = []
  readonly #worker: RelayWorker
  readonly #descriptors: Descriptors
  readonly #pages = stats(counterCell.count)
  readonly signs = new WorkerSigns()
  readonly #orders: Order[] = []
  readonly #wakeFd: number
  readonly #one: NativeMemory
  readonly #backend: number
  readonly #bind: Bind
  readonly #front: Partial<RelayFront>
  readonly #spec: Partial<RelayListener>
  readonly #endpointAt: Bind

  readonly #bufferBytes: number | undefined

  constructor(t: Test, request: TcpWorkerRequest = {}) {
    this.#bufferBytes = request.bufferBytes
    const { calls, layout } = linuxParts()
    const { limits = {}, over = () => ({}), front = {} } = request
    this.bench = new Bench(t, 1 << 20)
    this.#front = front
    this.#spec = request.spec ?? {}
    this.#one = calls.allocate(8)
    this.#one.view.setBigUint64(0, 1n, true)
    this.#wakeFd = this.bench.keep(calls.eventfd(0, flags))
    const descriptors = newDescriptorsMemory(20_000, 64, 2)
    this.#descriptors = new Descriptors(descriptors, 0)
    this.#worker = new RelayWorker({
      knowsTtl: true,
      buffersWrites: false,
      setup: {
        thread: 1,
        limits: { ...defaultLimits, ...limits },
        wantedCauses: request.wantedCauses ?? causes,
        descriptors,
        wakeFd: this.#wakeFd,
        wakeFds: [this.#wakeFd],
        signs: this.signs.memory,
        pages: {
          listeners: this.#pages.pages,
          endpoints: stats(endpointCell.count).pages,
          'endpoint-state': endpointState().pages,
        },
      },
      calls: { ...calls, ...this.#small(calls), ...over(calls) },
      layout,
      takeOrders: () => this.#orders.splice(0),
      post: report => this.#hear(report),
    })
    const { fd, at } = this.bench.bound(c.SOCK_STREAM, testHost)
    this.#shrink(fd)
    calls.listen(fd, 4096)
    this.#backend = fd
    this.#endpointAt = request.endpointAt ?? at
    const socket = this.bench.bound(c.SOCK_STREAM, testHost)
    this.#shrink(socket.fd)
    new Linger(calls).reset(socket.fd)
    calls.listen(socket.fd, 4096)
    this.#bind = socket.at
    this.listen()
    this.order({ kind: 'open', slot: 0, bind: socket.at, fd: socket.fd })
    t.teardown(() => this.order({ kind: 'call', id: 0, call: { kind: 'kill' } }))
  }

  listen(): void {
    const { address, port } = this.#endpointAt
    const fronts = [frontOf([this.#bind], this.#front)]
    const endpoints = [endpoint(address, port)]
    const spec = listenerSpec({ fronts, endpoints, ...this.#spec })
    this.order({ kind: 'listener', slot: 0, spec, endpointSlots: [0] })
  }

  /** Closes the listening socket. */
  shut(): void {
    this.order({ kind: 'close', slot: 0, bind: this.#bind })
  }

  /** Carries out orders in a turn. */
  order(...orders: Order[]): void {
    this.#orders.push(...orders)
    this.#wake()
    this.turn()
  }

  #hear(report: Report): void {
    this.reports.push(report)
    if (report.kind !== 'news') return
    this.#orders.push({ kind: 'news-taken' })
    this.#wake()
  }

  turn(count = 4): void {
    for (let i = 0; i < count; i += 1) this.#worker.turn(0)
  }

  #wake(): void {
    const { calls } = this.bench
    calls.write(this.#wakeFd, this.#one.address, 8)
  }

  /** Gives turns for so many milliseconds. */
  async last(ms: number): Promise<void> {
    const end = performance.now() + ms
    while (performance.now() < end) {
      this.turn()
      await new Promise(resolve => setImmediate(resolve))
    }
  }

  /** Gives turns until `check` holds; false when it does not for so many milliseconds. */
  async until(check: () => boolean, ms = 5000): Promise<boolean> {
    const end = performance.now() + ms
    while (!check()) {
      if (performance.now() > end) return false
      await this.last(1)
    }
    return true
  }

  /** Reads what comes from a descriptor until it is what is expected, or 5 s are over. */
  async hears(fd: number, expected: string): Promise<string> {
    let heard = ''
    await this.until(() => {
      const piece = this.bench.read(fd)
      if (typeof piece === 'string') heard += piece
      return heard.length >= expected.length
    })
    return heard
  }

  /** A client that the worker has not heard of. */
  connect(): number {
    const [fd] = this.bench.connect(c.SOCK_STREAM, this.#bind)
    this.#shrink(fd)
    return fd
  }

  /** Accepted sockets have it from the listening one. */
  #shrink(fd: number): void {
    if (this.#bufferBytes === undefined) return
    for (const name of [c.SO_SNDBUF, c.SO_RCVBUF]) {
      this.bench.setOption(fd, c.SOL_SOCKET, name, this.#bufferBytes)
    }
  }

  #small(calls: Syscalls): Partial<Syscalls> {
    return {
      socket: (...args) => {
        const fd = calls.socket(...args)
        if (fd >= 0) this.#shrink(fd)
        return fd
      },
    }
  }

  /** A connection through the relay: both outer ends. */
  connection(): { readonly client: number; readonly backend: number } {
    const client = this.connect()
    this.turn()
    const backend = this.accept()
    this.turn()
    return { client, backend }
  }

  accept(): number {
    return this.bench.keep(this.bench.calls.accept(this.#backend, 0, 0, flags))
  }

  endOf(fd: number): void {
    this.bench.calls.shutdown(fd, c.SHUT_WR)
  }

  reset(fd: number): void {
    const { bench } = this
    bench.memory.words[0] = 1
    bench.memory.words[1] = 0
    bench.calls.setsockopt(fd, c.SOL_SOCKET, c.SO_LINGER, bench.memory.address, 8)
    bench.close(fd)
  }

  /** Writes zeros until there is no room; how many bytes. */
  fill(fd: number): number {
    const { calls, memory } = this.bench
    let sent = 0
    for (;;) {
      const count = calls.send(fd, memory.address, 65_536, c.MSG_NOSIGNAL)
      if (count < 0) return sent
      sent += count
    }
  }

  get records(): ConnectionRecord[] {
    return this.#news.flatMap(({ records }) => records)
  }

  get faults(): string[] {
    return this.#news.flatMap(({ faults }) => faults.map(([, { message }]) => message))
  }

  get #news(): News[] {
    return this.reports.flatMap(one => (one.kind === 'news' ? one.news : []))
  }

  /** Descriptors that the worker has paid for. */
  get held(): number {
    return this.#descriptors.used
  }

  get counters(): ListenerCounters {
    return countersOf(cell => this.#pages.read(0, cell))
  }
}
