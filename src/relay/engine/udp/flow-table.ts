import { AF_INET } from '../../../ffi/constants.ts'

/** Of a batch of datagrams: its headers' words. */
interface Received {
  readonly words: Int32Array
}

/** Who a flow's client is: the words of its struct sockaddr, and where it wrote to. */
export interface Identity {
  readonly name: Int32Array
  readonly destination: Int32Array | undefined
}

export interface TableFlow extends Identity {
  readonly hash: number
  /** The next one with the same hash. */
  alike: this | undefined
}

/**
 * The flows of one listening socket by client. The key is a number, so that nothing is
 * allocated to look one up: for IPv4 the address and port themselves, for IPv6 a hash of
 * them that can't be foreseen from outside, which several flows may share.
 */
export class FlowTable<F extends TableFlow> {
  readonly #flows = new Map<number, F>()
  readonly #seed: number
  #size = 0

  /** `random` is uniform in [0, 1). */
  constructor(random: () => number) {
    this.#seed = Math.floor(random() * 2 ** 32) | 0
  }

  get size(): number {
    return this.#size
  }

  hash({ words }: Received, at: number, destination: number): number {
    const first = words[at] ?? 0
    const port = first >>> 16
    if ((first & 0xffff) === AF_INET) {
      const address = words[at + 1] ?? 0
      if (destination < 0) return (address >>> 0) * 65_536 + port
      const mixed = mix(mix(this.#seed, address), words[destination] ?? 0)
      return (mixed >>> 0) * 65_536 + port
    }
    let hash = this.#seed
    for (let i = 2; i < 7; i += 1) hash = mix(hash, words[at + i] ?? 0)
    if (destination >= 0) {
      for (let i = 0; i < 4; i += 1) hash = mix(hash, words[destination + i] ?? 0)
    }
    return (hash >>> 0) * 65_536 + port
  }

  /** The flow of the client at `at` in the words of `batch`; `destination` -1: not known. */
  find(batch: Received, hash: number, at: number, destination: number): F | undefined {
    let flow = this.#flows.get(hash)
    while (flow !== undefined && !this.isOf(flow, batch, at, destination))
      flow = flow.alike
    return flow
  }

  isOf(flow: F, { words }: Received, at: number, destination: number): boolean {
    return isSame(flow.name, words, at) && isSameDestination(flow, words, destination)
  }

  add(flow: F): void {
    flow.alike = this.#flows.get(flow.hash)
    this.#flows.set(flow.hash, flow)
    this.#size += 1
  }

  /** Whether it was there. */
  delete(flow: F): boolean {
    let before = this.#flows.get(flow.hash)
    if (before === flow) {
      if (flow.alike === undefined) this.#flows.delete(flow.hash)
      else this.#flows.set(flow.hash, flow.alike)
    } else {
      while (before !== undefined && before.alike !== flow) before = before.alike
      if (before === undefined) return false
      before.alike = flow.alike
    }
    flow.alike = undefined
    this.#size -= 1
    return true
  }

  /** A copy: what is done with them may end flows. */
  all(): F[] {
    const all: F[] = []
    for (const first of this.#flows.values()) {
      for (let flow: F | undefined = first; flow !== undefined; flow = flow.alike) {
        all.push(flow)
      }
    }
    return all
  }
}

const mix = (hash: number, word: number): number => {
  const mixed = Math.imul(hash ^ word, 0x9e37_79b1)
  return Math.imul(mixed ^ (mixed >>> 15), 0x85eb_ca77)
}

const isSame = (known: Int32Array, words: Int32Array, at: number): boolean => {
  for (let i = 0; i < known.length; i += 1) if (known[i] !== words[at + i]) return false
  return true
}

const isSameDestination = (
  { destination }: Identity,
  words: Int32Array,
  at: number,
): boolean =>
  destination === undefined ? at < 0 : at >= 0 && isSame(destination, words, at)
