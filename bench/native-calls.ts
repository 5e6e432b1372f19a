import {
  iovec,
  msghdr,
  sockaddrSize,
  structLayout,
  type StructLayout,
} from '../src/ffi/struct-layout.ts'
import { loadSyscalls, type NativeMemory, type Syscalls } from '../src/ffi/syscalls.ts'
import { writeSockaddr } from '../src/relay/engine/sockaddr.ts'

/* The system calls by which UDP load keeps up with the Linux relay. */

/** What the Linux relay, and a UDP generator and echo that can keep up with it, need. */
export interface NativeCalls {
  readonly calls: Syscalls
  readonly layout: StructLayout
}

/** The system calls, or in words why they can't be made here: it is tried. */
export const nativeCalls = (): NativeCalls | string => {
  const layout = structLayout()
  if (layout === undefined)
    return `the Linux relay knows no ${process.platform} on ${process.arch}`
  try {
    return { calls: loadSyscalls(), layout }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'MODULE_NOT_FOUND'
      ? 'koffi is missing: install it with `npm install koffi`'
      : `koffi does not run here: ${message.trim().split('\n')[0]}`
  }
}

const wordBytes = 4
const headerWords = msghdr.size / wordBytes
const movedWord = msghdr.moved / wordBytes
const nameLengthWord = msghdr.nameLength / wordBytes
const vectorWords = iovec.size / wordBytes
/** A struct sockaddr, aligned. */
const nameBytes = 32

/** An array of struct mmsghdr for recvmmsg(2) and sendmmsg(2), each of one piece of memory. */
export class MessageBatch {
  readonly size: number
  /** Of the first header. */
  readonly address: number
  readonly #headers: NativeMemory
  readonly #vectors: NativeMemory
  readonly #names: NativeMemory | undefined

  /** `withNames`: senders' addresses are written down when receiving, and used to send. */
  constructor(calls: Pick<Syscalls, 'allocate'>, size: number, withNames: boolean) {
    this.size = size
    this.#headers = calls.allocate(size * msghdr.size)
    this.#vectors = calls.allocate(size * iovec.size)
    this.#names = withNames ? calls.allocate(size * nameBytes) : undefined
    this.address = this.#headers.address
    for (let index = 0; index < size; index += 1) this.#prepare(index)
  }

  /** Where the message at `index` lies, or may be written to. */
  put(index: number, address: number, length: number): void {
    writeAddress(this.#vectors, index * vectorWords, address)
    this.setLength(index, length)
  }

  setLength(index: number, length: number): void {
    this.#vectors.words[index * vectorWords + iovec.length / wordBytes] = length
  }

  /** Bytes that the last call moved. */
  moved(index: number): number {
    return this.#headers.words[index * headerWords + movedWord] ?? 0
  }

  /** The kernel has written how long the sender's address is: there is room for any again. */
  forgetName(index: number): void {
    this.#headers.words[index * headerWords + nameLengthWord] = sockaddrSize
  }

  /** Where all messages go; only with names. */
  sendTo(address: string, port: number): void {
    const names = this.#names
    if (names === undefined) throw new Error('there is no room for addresses')
    for (let index = 0; index < this.size; index += 1)
      this.#headers.words[index * headerWords + nameLengthWord] = writeSockaddr(
        names,
        index * nameBytes,
        address,
        port,
      )
  }

  #prepare(index: number): void {
    const { words } = this.#headers
    const start = index * headerWords
    writeAddress(
      this.#headers,
      start + msghdr.iov / wordBytes,
      this.#vectors.address + index * iovec.size,
    )
    words[start + msghdr.iovLength / wordBytes] = 1
    if (this.#names === undefined) return
    writeAddress(this.#headers, start, this.#names.address + index * nameBytes)
    this.forgetName(index)
  }
}

/** The lower half as a signed number, as `words` has it, then the upper one. */
const writeAddress = ({ words }: NativeMemory, at: number, address: number): void => {
  words[at] = address | 0
  words[at + 1] = Math.floor(address / 2 ** 32)
}
