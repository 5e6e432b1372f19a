import type { Socket } from 'node:net'
import { ackedBytes } from '../backends/servers.ts'
import { dial } from './http.ts'
import { destroyAll, ErrorCounts, errorName, type Load } from './load.ts'
import type { Traffics } from './question.ts'
import type { Endpoint } from '../services.ts'

const blockBytes = 256 * 1024

interface Stream {
  readonly socket: Socket
  bytes: number
  bytesAtOpen: number
  hasFailed: boolean
}

/**
 * Streams one way or both. What counts of an upload is what the sink says has arrived;
 * what was written may still sit in buffers on the way.
 */
export class BulkLoad implements Load {
  readonly errors = new ErrorCounts()
  readonly #streams: Stream[] = []
  #isStopped = false

  constructor({ download, upload, streams }: Traffics['bulk']) {
    const buffer = new Uint8Array(blockBytes)
    const block = Buffer.alloc(blockBytes, 'usher')
    for (let count = 0; count < streams; count += 1) {
      if (download !== undefined) this.#open(download, buffer, 1)
      if (upload !== undefined) fill(this.#open(upload, buffer, ackedBytes), block)
    }
  }

  done(): number {
    return this.#streams.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  openWindow(): void {
    for (const stream of this.#streams) stream.bytesAtOpen = stream.bytes
  }

  async closeWindow(): Promise<void> {
    for (const { bytes, bytesAtOpen, hasFailed } of this.#streams)
      if (bytes === bytesAtOpen && !hasFailed) this.errors.add('nothing came')
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await destroyAll(this.#streams.map(({ socket }) => socket))
  }

  #open(to: Endpoint, buffer: Uint8Array, bytesPerByte: number): Socket {
    const socket = dial({ to, buffer }, length => {
      stream.bytes += length * bytesPerByte
    })
    const stream: Stream = { socket, bytes: 0, bytesAtOpen: 0, hasFailed: false }
    this.#streams.push(stream)
    socket.on('error', error => this.#fail(stream, errorName(error)))
    socket.on('close', () => this.#fail(stream, 'closed early'))
    return socket
  }

  #fail(stream: Stream, failure: string): void {
    if (this.#isStopped || stream.hasFailed) return
    stream.hasFailed = true
    this.errors.add(failure)
  }
}

const fill = (socket: Socket, block: Buffer): void => {
  const write = (): void => {
    while (!socket.destroyed && socket.write(block));
  }
  socket.on('connect', write)
  socket.on('drain', write)
}
