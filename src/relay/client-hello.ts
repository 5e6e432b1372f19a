// The ClientHello of TLS (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2) as far as a proxy needs it that
// passes it on: the name of the server and the protocols that are offered.

/** Of the handshake message; with post-quantum keys it is some 2 KiB. */
const mostHelloBytes = 16 * 1024
/** Into which it may be cut: all of them are looked at whenever a byte has come. */
const mostRecords = 128
/** Of one record (RFC 8446, 5.1). */
const mostPayload = 16 * 1024
/** No host name has more (RFC 1035, 2.3.4). */
const mostNameBytes = 255

const recordHead = 5
const handshakeHead = 4
/** In these there is a whole hello, or there are too many records. */
export const mostRecordBytes = mostRecords * recordHead + handshakeHead + mostHelloBytes
const contentType = { handshake: 22 }
const handshakeType = { clientHello: 1 }
const extensionType = { serverName: 0, alpn: 16 }

export interface ClientHello {
  /** In lower case, without a dot at its end; undefined where it says none. With ECH it is the outer one. */
  readonly serverName: string | undefined
  readonly alpn: readonly string[]
}

/** Nothing that a server is named in: no TLS, or none that makes sense. */
const nameless: ClientHello = { serverName: undefined, alpn: [] }

/**
 * Reads it from the first bytes of a connection. Undefined while more is needed; a text says why
 * no more is taken. What is no ClientHello has neither name nor protocols: the server may say what
 * it thinks of it.
 */
export const readClientHello = (bytes: Buffer): ClientHello | string | undefined => {
  const handshake = handshakeIn(bytes)
  if (handshake === undefined) return nameless
  const { message, isBrokenOff, isFull } = handshake
  if (message.length > 0 && message[0] !== handshakeType.clientHello) return nameless
  const length = message.length < handshakeHead ? 0 : message.readUIntBE(1, 3)
  if (length > mostHelloBytes) return tooLong
  if (message.length >= handshakeHead + length && message.length >= handshakeHead)
    return readHello(message.subarray(handshakeHead, handshakeHead + length))
  if (isBrokenOff) return nameless
  return isFull ? 'a ClientHello in too many records' : undefined
}

const tooLong = 'a ClientHello that is too long'

interface Handshake {
  readonly message: Buffer
  /** What has come behind it belongs to no handshake: nothing more of it will come. */
  readonly isBrokenOff: boolean
  /** As many records as are looked at are there. */
  readonly isFull: boolean
}

/** As much of the handshake as has come, out of its records; undefined where these are none. */
const handshakeIn = (bytes: Buffer): Handshake | undefined => {
  const pieces: Buffer[] = []
  let at = 0
  while (at < bytes.length && pieces.length < mostRecords) {
    const [type, major] = bytes.subarray(at)
    if (type !== contentType.handshake || (major !== undefined && major !== 3)) {
      // What follows a whole hello is early data, or nothing that matters.
      return at === 0 ? undefined : brokenOff(pieces)
    }
    if (bytes.length < at + recordHead) break
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > mostPayload)
      return at === 0 ? undefined : brokenOff(pieces)
    pieces.push(bytes.subarray(at + recordHead, at + recordHead + length))
    at += recordHead + length
  }
  const isFull = pieces.length === mostRecords && at <= bytes.length
  return { message: joined(pieces), isBrokenOff: false, isFull }
}

const brokenOff = (pieces: readonly Buffer[]): Handshake => ({
  message: joined(pieces),
  isBrokenOff: true,
  isFull: false,
})

const joined = (pieces: readonly Buffer[]): Buffer =>
  pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces)

/** What comes after version and random, as far as it is sound. */
const readHello = (body: Buffer): ClientHello => {
  const reader = new Reader(body.subarray(34))
  reader.vector(1) // session
  reader.vector(2) // cipher suites
  reader.vector(1) // compression
  const extensions = new Reader(reader.vector(2))
  let serverName: string | undefined
  let alpn: readonly string[] = []
  while (extensions.left > 0) {
    const type = extensions.number(2)
    const content = extensions.vector(2)
    if (type === extensionType.serverName) serverName = nameIn(content)
    if (type === extensionType.alpn) alpn = protocolsIn(content)
  }
  return { serverName, alpn }
}

const nameIn = (content: Buffer): string | undefined => {
  const names = new Reader(new Reader(content).vector(2))
  while (names.left > 0) {
    const isHostName = names.number(1) === 0
    const name = names.vector(2).toString('latin1')
    if (isHostName && name !== '' && name.length <= mostNameBytes)
      return name.toLowerCase().replace(/\.$/, '')
  }
  return undefined
}

const protocolsIn = (content: Buffer): readonly string[] => {
  const names = new Reader(new Reader(content).vector(2))
  const protocols: string[] = []
  while (names.left > 0) protocols.push(names.vector(1).toString('latin1'))
  return protocols
}

/** What is not there reads as nothing: a part that is cut off is the last. */
class Reader {
  #bytes: Buffer

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get left(): number {
    return this.#bytes.length
  }

  number(size: 1 | 2): number {
    const value = this.left < size ? 0 : this.#bytes.readUIntBE(0, size)
    this.#bytes = this.#bytes.subarray(size)
    return value
  }

  /** Bytes behind their length, which has `size` bytes. */
  vector(size: 1 | 2): Buffer {
    const length = this.number(size)
    const isThere = length <= this.left
    const vector = isThere ? this.#bytes.subarray(0, length) : Buffer.alloc(0)
    this.#bytes = this.#bytes.subarray(isThere ? length : this.left)
    return vector
  }
}
