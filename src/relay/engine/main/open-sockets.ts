import type { RelayProtocol } from '../../../model/service.ts'
import { familyOf, joinHostPort } from '../../../util/ip.ts'
import { placedAt, type PlacedSocket } from '../../../util/placed-socket.ts'
import { isUnix, unixPath } from '../../../util/unix-address.ts'
import { bindKey, type Bind } from '../../relay.ts'
import { systemError } from '../../../ffi/errno.ts'
import { Descriptors, type DescriptorsMemory } from '../shared/descriptors.ts'
import type { Syscalls } from '../../../ffi/syscalls.ts'
import type { ListeningBudget } from './listening-budget.ts'
import type { ListeningLayer } from '../socket-layer.ts'
import { socketOf, Steering } from './steering.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** The sockets of one address: one for each worker, or one alone. */
export interface Group {
  readonly protocol: RelayProtocol
  readonly bind: Bind
  readonly sockets: readonly { readonly worker: WorkerHandle; readonly fd: number }[]
  /** Of a unix socket. */
  readonly file: PlacedSocket | undefined
  spread: Spread
  /** Id of the listener that has it now. */
  listener: string
  /** Another process serves it until it has given its flows. */
  awaitsFlows: boolean
}

/**
 * How clients come to workers: as the kernel likes, each client always to the same one, or all to one
 * (any number says which), as it is not known yet who they are.
 */
export type Spread = 'any' | 'by-client' | number

/** Of the workers to which a client may come. */
export const threadsOf = (
  { sockets, spread }: Group,
  client: string,
): readonly number[] => {
  const threads = sockets.map(({ worker }) => worker.thread)
  if (spread === 'any') return threads
  const { length } = threads
  const index = spread === 'by-client' ? socketOf(client, length) : spread % length
  return threads.slice(index, index + 1)
}

/** Whose sockets they are to be. */
export interface Holder {
  /** Of the listener. */
  readonly id: string
  readonly slot: number
  readonly protocol: RelayProtocol
  readonly spread: Spread
  /** Workers have been told of it, those that there are now. */
  readonly isKnown: boolean
  /** What was open there is closed: it is to be opened again. */
  reopen(bind: Bind): void
}

/** An address of TCP or UDP as the key of a map. */
export const socketKey = (protocol: RelayProtocol, bind: Bind): string =>
  `${protocol} ${bindKey(bind)}`

/** The sockets of one address as they come from another process. */
export interface HandedSockets {
  readonly listener: string
  readonly protocol: RelayProtocol
  readonly bind: Bind
  readonly spread: Spread
  readonly fds: readonly number[]
}

/**
 * All listening sockets: opened here, served by workers, who close them on order. One that
 * a listener lets go may be another's in the same `apply`, queue and all.
 */
export class OpenSockets {
  readonly #calls: Syscalls
  readonly #budget: ListeningBudget
  readonly #listening: ListeningLayer
  readonly #steering: Steering
  /** By worker, to write down for it what it is about to own. */
  readonly #owners: ReadonlyMap<WorkerHandle, Descriptors>
  readonly #groups = new Set<Group>()
  readonly #offers = new Map<string, Group>()
  /** Of another process, by `socketKey`, until they are opened here. */
  readonly #handed = new Map<string, HandedSockets>()
  /** What is to be served once the other process does not serve it any more, and for whom. */
  readonly #parked = new Map<Group, Holder>()
  #isParking = false
  #isGivenAway = false
  #wanted: ReadonlySet<string> = new Set()
  #closing = false
  #drained = false
  #hasEnded = false

  constructor(
    calls: Syscalls,
    workers: readonly WorkerHandle[],
    memory: DescriptorsMemory,
    budget: ListeningBudget,
    listening: ListeningLayer,
  ) {
    this.#calls = calls
    this.#budget = budget
    this.#listening = listening
    this.#steering = new Steering(calls)
    this.#owners = new Map(
      workers.map(worker => [worker, new Descriptors(memory, worker.thread)]),
    )
  }

  /** From now to `end`, sockets at the `socketKey`s of `wanted` are kept for the listeners that adopt them. */
  begin(wanted: ReadonlySet<string>): void {
    this.#wanted = wanted
  }

  /** Whether a socket may have its port and not listen. */
  get keepsPorts(): boolean {
    return this.#listening.keepsPorts
  }

  /** Whether workers have been ordered to close any since it was last asked. */
  takeClosing(): boolean {
    const closing = this.#closing
    this.#closing = false
    return closing
  }

  /** Closes what was not taken; every worker must have carried out its `release`. */
  end(): void {
    this.#wanted = new Set()
    for (const group of this.#offers.values()) this.#closeAll(group)
    this.#offers.clear()
  }

  /** For a successor: the other process gets descriptors of its own. */
  all(): readonly HandedSockets[] {
    return [...this.#groups].map(({ listener, protocol, bind, spread, sockets }) => ({
      listener,
      protocol,
      bind,
      spread,
      fds: sockets.map(({ fd }) => fd),
    }))
  }

  /** They are a successor's: from now on they are closed here without ending what they do there. */
  giveAway(): void {
    this.#drained = true
    this.#isGivenAway = true
  }

  /** From another process: opened where they are wanted, and served from `serve` on. */
  takeOver(handed: readonly HandedSockets[]): void {
    for (const one of handed) this.#handed.set(socketKey(one.protocol, one.bind), one)
    this.#isParking = true
  }

  /** Now they are served here, but for those that await flows, and those that were not wanted are closed. */
  serve(): void {
    for (const { fds } of this.#handed.values())
      for (const fd of fds) this.#calls.close(fd)
    this.#handed.clear()
    this.#isParking = false
    for (const [group, holder] of this.#parked) this.assign(holder, group)
  }

  /** Those whose flows another process has, by `bindKey`. */
  awaitingFlows(): ReadonlyMap<string, Group> {
    const awaiting = [...this.#parked.keys()].filter(({ awaitsFlows }) => awaitsFlows)
    return new Map(awaiting.map(group => [bindKey(group.bind), group]))
  }

  /**
   * The other process has given all flows at an address. Workers leave its sockets alone until they have the
   * last of them. Gives the slot of its listener.
   */
  takeFlows(group: Group): number | undefined {
    const holder = this.#parked.get(group)
    if (holder === undefined) return undefined
    group.awaitsFlows = false
    this.assign(holder, group, true)
    return holder.slot
  }

  /**
   * What still awaits flows gets none: the other process goes on serving it, and it is opened when that
   * has ended; or that has ended already.
   */
  abandonFlows(hasEnded: boolean): void {
    for (const group of [...this.#groups].filter(({ awaitsFlows }) => awaitsFlows)) {
      const holder = this.#parked.get(group)
      group.awaitsFlows = false
      if (holder === undefined) continue
      if (hasEnded) this.assign(holder, group)
      else {
        this.#closeAll(group)
        holder.reopen(group.bind)
      }
    }
  }

  /** Workers have closed the sockets of a group when another process had its flows. */
  gave(group: Group): void {
    if (this.#groups.has(group)) this.#forget(group)
  }

  has(group: Group): boolean {
    return this.#groups.has(group)
  }

  /**
   * Serves an address with a socket at each of `workers`. Throws what socket or bind say,
   * EMFILE when listening sockets have had their share, and when the relay has ended meanwhile.
   */
  async open(
    holder: Holder,
    bind: Bind,
    workers: readonly WorkerHandle[],
    isIdle = false,
  ): Promise<Group> {
    const taken = isIdle
      ? undefined
      : (this.#taken(holder, bind, workers) ?? this.#adopted(holder, bind, workers))
    const group = taken ?? (await this.#opened(holder, bind, workers, isIdle))
    group.listener = holder.id
    // The end may have come between two of its steps, and closed it.
    if (!this.#groups.has(group)) throw relayEnded()
    if (isIdle) return group
    try {
      this.steer(group, holder.spread)
    } catch (error) {
      // A worker may be about to let go of one that was another's: `end` knows when it has.
      if (taken === undefined) this.#closeAll(group)
      else this.#offers.set(socketKey(holder.protocol, bind), group)
      throw error
    }
    this.assign(holder, group)
    return group
  }

  /** Orders workers to serve the sockets of a group, now or when the other process does not any more. */
  assign(holder: Holder, group: Group, awaitsFlows = false): void {
    const { slot, isKnown } = holder
    const { bind, sockets } = group
    if (this.#isParking || group.awaitsFlows) {
      this.#parked.set(group, holder)
      return
    }
    this.#parked.delete(group)
    for (const { worker, fd } of isKnown ? sockets : []) {
      this.#owners.get(worker)?.opened(fd)
      worker.post({ kind: 'open', slot, bind, fd, awaitsFlows })
    }
  }

  /** Stops serving; closed, unless it is wanted elsewhere. */
  letGo({ slot, isKnown }: Holder, group: Group): void {
    // The end has closed it.
    if (!this.#groups.has(group)) return
    const { protocol, bind, sockets } = group
    const key = socketKey(protocol, bind)
    const isWanted = this.#wanted.has(key) && !this.#drained
    const wasParked = this.#parked.delete(group)
    const isServed = isKnown && !wasParked
    if (isWanted) this.#offers.set(key, group)
    else this.#forget(group)
    if (this.#drained && !wasParked) return this.#shut(group)
    for (const { worker, fd } of sockets) {
      if (isServed) {
        worker.post({ kind: isWanted ? 'release' : 'close', slot, bind })
        this.#closing ||= !isWanted
      } else if (!isWanted) this.#close(worker, fd)
    }
  }

  /** Sockets of TCP stay bound and refuse clients (inet_shutdown; HAProxy pauses so, too). */
  pause({ slot, isKnown }: Holder, group: Group): void {
    const wasParked = this.#parked.delete(group)
    this.#shut(group)
    for (const { worker } of isKnown && !wasParked ? group.sockets : [])
      worker.post({ kind: 'release', slot, bind: group.bind })
  }

  /** Serves them again. Throws what listen says. */
  resume(holder: Holder, group: Group): void {
    try {
      for (const { fd } of group.sockets) this.#listening.listen(fd, group.bind)
      group.spread = 'any' // They are another group of the kernel's now.
      this.steer(group, holder.spread)
    } catch (error) {
      this.#shut(group)
      throw error
    }
    this.assign(holder, group)
  }

  /** Lets go of those that are paused; workers have released them by the end of that `apply`. */
  closePaused(group: Group): void {
    if (!this.#drained) this.#closeAll(group)
  }

  /** Descriptors that were paid for here are the worker's from now on. */
  give(worker: WorkerHandle, fds: readonly number[]): void {
    const owner = this.#owners.get(worker)
    owner?.takeOver(fds.length)
    for (const fd of fds) owner?.opened(fd)
  }

  /** Has the kernel spread clients over the sockets of a group. */
  steer(group: Group, spread: Spread): void {
    const { sockets, bind } = group
    const [first] = sockets
    if (first === undefined || sockets.length < 2 || group.spread === spread) return
    const result = this.#steer(first.fd, spread, bind.address, sockets.length)
    if (result < 0)
      throw systemError(`steer ${joinHostPort(bind.address, bind.port)}`, result)
    group.spread = spread
  }

  #steer(fd: number, spread: Spread, address: string, sockets: number): number {
    if (spread === 'any') return this.#steering.release(fd)
    return spread === 'by-client'
      ? this.#steering.byClient(fd, familyOf(address) ?? 'IPv4', sockets)
      : this.#steering.toOne(fd, spread % sockets)
  }

  /** No worker is left: their connections are reset (Linger), but not what listens. */
  inherit(): void {
    const groups = [...this.#groups]
    const listening = new Set(
      groups.flatMap(({ sockets }) => sockets.map(({ fd }) => fd)),
    )
    for (const [{ thread }, owner] of this.#owners)
      for (const fd of owner.inherit(thread)) {
        if (listening.has(fd)) owner.opened(fd)
        else this.#calls.close(fd)
      }
  }

  /** Sockets that are let go from now on are closed by workers, or by `abandon`. */
  drain(): void {
    this.#drained = true
  }

  /** No worker is left, nor will one come: what is open is closed, and what opens only now. */
  abandon(): void {
    this.#hasEnded = true
    for (const group of this.#groups) this.#closeAll(group)
    this.inherit()
  }

  #taken(
    { protocol, spread }: Holder,
    bind: Bind,
    workers: readonly WorkerHandle[],
  ): Group | undefined {
    const key = socketKey(protocol, bind)
    const group = this.#offers.get(key)
    // A client that all addresses share must find one worker behind all of them.
    const fits = group?.sockets.every(({ worker }, i) => worker === workers[i])
    if (group === undefined || (spread !== 'any' && !fits)) return undefined
    this.#offers.delete(key)
    return group
  }

  /** That of another process, whose clients wait in its queue. */
  #adopted(
    { id, protocol }: Holder,
    bind: Bind,
    workers: readonly WorkerHandle[],
  ): Group | undefined {
    const key = socketKey(protocol, bind)
    const handed = this.#handed.get(key)
    if (handed === undefined) return undefined
    const { fds, spread } = handed
    // As many as there were: each has a queue of its own.
    const owners = fds.length === workers.length ? workers : [...this.#owners.keys()]
    if (!this.#budget.take(fds.length)) throw noDescriptor()
    this.#handed.delete(key)
    const sockets = fds.flatMap((fd, i) => {
      const worker = owners[i]
      return worker === undefined ? [] : [{ worker, fd }]
    })
    const path = isUnix(bind.address) ? unixPath(bind.address) : ''
    const file = path === '' || path.startsWith('\0') ? undefined : placedAt(path)
    const group: Group = {
      protocol,
      bind,
      sockets,
      file,
      spread,
      listener: id,
      awaitsFlows: protocol === 'UDP',
    }
    this.#groups.add(group)
    // It may have kept its port and not listened.
    if (protocol === 'TCP') for (const fd of fds) this.#listening.listen(fd, bind)
    return group
  }

  async #opened(
    { id, protocol }: Holder,
    bind: Bind,
    workers: readonly WorkerHandle[],
    isIdle: boolean,
  ): Promise<Group> {
    const { length } = workers
    if (!this.#budget.take(length)) throw noDescriptor()
    try {
      const { fds, file } = await this.#listening.open(protocol, bind, length, isIdle)
      const sockets = workers.map((worker, i) => ({ worker, fd: fds[i] ?? -1 }))
      const group: Group = {
        protocol,
        bind,
        sockets,
        file,
        spread: 'any',
        listener: id,
        awaitsFlows: false,
      }
      this.#groups.add(group)
      if (this.#hasEnded) this.#closeAll(group)
      return group
    } catch (error) {
      this.#budget.release(length)
      throw error
    }
  }

  /**
   * The kernel refuses clients from now on; the worker is ordered to close it. It is
   * not shut down later: then its number may be another's.
   */
  #shut({ protocol, sockets }: Group): void {
    if (protocol !== 'TCP' || this.#isGivenAway) return
    for (const { fd } of sockets) this.#calls.shutdown(fd, SHUT_RD)
  }

  /** Once: after that its numbers may be others'. */
  #closeAll(group: Group): void {
    if (!this.#groups.has(group)) return
    for (const { worker, fd } of group.sockets) this.#close(worker, fd)
    this.#forget(group)
  }

  #close(worker: WorkerHandle, fd: number): void {
    this.#owners.get(worker)?.closing(fd)
    this.#calls.close(fd)
  }

  #forget(group: Group): void {
    this.#groups.delete(group)
    this.#parked.delete(group)
    // As long as it is not served here the file is the other process's, which may go on.
    if (!this.#isGivenAway && !this.#isParking) group.file?.remove()
    this.#budget.release(group.sockets.length)
  }
}

const relayEnded = (): Error => new Error('the relay has ended')

/** Ends a TCP socket's listening (shutdown(2); tcp_disconnect). */
const SHUT_RD = 0

const noDescriptor = (): NodeJS.ErrnoException =>
  Object.assign(new Error('too few file descriptors; raise the limit (ulimit -n)'), {
    code: 'EMFILE',
  })
