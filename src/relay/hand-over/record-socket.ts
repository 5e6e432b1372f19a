import {
  ETOOMANYREFS,
  MSG_CMSG_CLOEXEC,
  MSG_CTRUNC,
  MSG_NOSIGNAL,
  MSG_TRUNC,
  POLLIN,
  SCM_RIGHTS,
  SO_PEERCRED,
  SO_SNDBUF,
  SOL_SOCKET,
} from '../../ffi/constants.ts'
import { errno, errnoName, systemError } from '../../ffi/errno.ts'
import { cmsghdr, iovec, msghdr, pollfd, ucred } from '../../ffi/struct-layout.ts'
import type { NativeMemory, Syscalls } from '../../ffi/syscalls.ts'
import { UsherError } from '../../util/usher-error.ts'
import { openFileLimit } from '../fd-limit.ts'

/** Descriptors that one record carries at most: the kernel's SCM_MAX_FD. One more is EINVAL. */
export const mostRecordFds = 253

/** Of a record with its header: well below what a socket takes by default (net.core.wmem_default). */
const mostRecordBytes = 65_536

/** Magic number, format, kind, whether it is the last one, and how many descriptors go with it. */
const header = { magic: 0, format: 3, kind: 4, isLast: 5, fds: 6, size: 8 } as const
const magic = 'USH'
/** What is written here and understood: to be raised with whatever changes of it. */
const format = 1

/** Bytes of text in one record. */
export const mostRecordText = mostRecordBytes - header.size

/** `bye` is the last one: who ends without it has died. */
const kinds = ['data', 'ack', 'bye'] as const
type Kind = (typeof kinds)[number]

export interface RecordPart {
  readonly kind: Kind
  /** Of its message. */
  readonly isLast: boolean
  readonly text: Buffer
  readonly fds: readonly number[]
}

const fdBytes = 4
const controlBytes = cmsghdr.data + Math.ceil((mostRecordFds * fdBytes) / 8) * 8

/** Where things lie in the memory of a socket. */
const place = {
  message: 0,
  vector: msghdr.size,
  control: msghdr.size + iovec.size,
  data: msghdr.size + iovec.size + controlBytes,
  size: msghdr.size + iovec.size + controlBytes + mostRecordBytes,
} as const

/** What is said to the operator where two Ushers can't hand over. */
export const handOverFault = (message: string, cause?: Error): UsherError =>
  new UsherError('HAND_OVER', message, { cause })

/** Results of a call that can't be made now. */
const later = new Set([-errno.EAGAIN, -errno.EINTR])
/** The other end has been closed. Which of these it is depends on what was under way. */
const gone = new Set([
  -errno.EPIPE,
  -errno.ECONNRESET,
  -errno.ECONNREFUSED,
  -errno.ENOTCONN,
])

/** What came of a record that was to be sent. */
export type Sent = 'sent' | 'later' | 'gone'

/**
 * A connected unix socket of type SOCK_SEQPACKET, not blocking: a record and its descriptors
 * arrive together or not at all. The socket is its own, and so is what it has received until
 * it is given to the caller; what it sends stays the caller's.
 */
export class RecordSocket {
  readonly #calls: Syscalls
  readonly #fd: number
  /** Of the record that is being sent or received: no call lasts longer than its function. */
  readonly #memory: NativeMemory
  /** Where descriptors are cut off there is none left to look for it with, and the other way takes seconds. */
  readonly #openFiles = openFileLimit()
  #isClosed = false

  constructor(calls: Syscalls, fd: number) {
    this.#calls = calls
    this.#fd = fd
    this.#memory = calls.allocate(place.size)
    const { address } = this.#memory
    this.#setNumber(place.message + msghdr.iov, address + place.vector)
    this.#setNumber(place.message + msghdr.iovLength, 1)
    this.#setNumber(place.message + msghdr.control, address + place.control)
    this.#setNumber(place.vector + iovec.base, address + place.data)
  }

  /**
   * Room for a whole record, however small the host's usual buffer is (EMSGSIZE otherwise), and
   * who the other end is: as it was when it connected, or began to listen.
   */
  open(): { readonly pid: number; readonly uid: number } {
    const { words, view, address } = this.#memory
    const at = place.data / 4
    words[at] = mostRecordBytes
    this.#must(
      'a buffer for sending',
      this.#calls.setsockopt(
        this.#fd,
        SOL_SOCKET,
        SO_SNDBUF,
        address + place.data,
        fdBytes,
      ),
    )
    const length = place.data + ucred.size
    view.setUint32(length, ucred.size, true)
    this.#must(
      'who is at the other end',
      this.#calls.getsockopt(
        this.#fd,
        SOL_SOCKET,
        SO_PEERCRED,
        address + place.data,
        address + length,
      ),
    )
    return {
      pid: view.getInt32(place.data + ucred.pid, true),
      uid: view.getUint32(place.data + ucred.uid, true),
    }
  }

  send({ kind, isLast, text, fds }: RecordPart): Sent {
    if (this.#isClosed) return 'gone'
    const { bytes, view } = this.#memory
    bytes.write(magic, place.data + header.magic, 'latin1')
    view.setUint8(place.data + header.format, format)
    view.setUint8(place.data + header.kind, kinds.indexOf(kind))
    view.setUint8(place.data + header.isLast, isLast ? 1 : 0)
    view.setUint16(place.data + header.fds, fds.length, true)
    text.copy(bytes, place.data + header.size)
    this.#setNumber(place.vector + iovec.length, header.size + text.length)
    this.#setNumber(place.message + msghdr.controlLength, this.#writeFds(fds))
    const result = this.#calls.sendmsg(this.#fd, this.#memory.address, MSG_NOSIGNAL)
    if (later.has(result)) return 'later'
    if (gone.has(result)) return 'gone'
    if (result < 0) throw unsent(result, fds.length)
    return 'sent'
  }

  /**
   * The next record; its text is a view until the next call. Undefined: there is none yet.
   * Throws when it is none of ours, and when not all of its descriptors have arrived; those that
   * have are closed then.
   */
  receive(): RecordPart | 'end' | undefined {
    if (this.#isClosed) return 'end'
    const length = this.#receive()
    if (later.has(length)) return undefined
    if (length < 0) throw broken('receive', length)
    const fds = this.#readFds()
    // Descriptors may come with no bytes at all.
    if (length === 0 && fds.length === 0) return 'end'
    try {
      return this.#decode(length, fds)
    } catch (error) {
      this.closeAll(fds)
      throw error
    }
  }

  /** Stands still, and takes no CPU from others, until there is something to receive or `ms` are over. */
  wait(ms: number): void {
    if (this.#isClosed) return
    const { view, address } = this.#memory
    view.setInt32(place.data + pollfd.fd, this.#fd, true)
    view.setInt32(place.data + pollfd.events, POLLIN, true)
    this.#calls.poll(address + place.data, 1, ms)
  }

  closeAll(fds: readonly number[]): void {
    for (const fd of fds) this.#calls.close(fd)
  }

  /** Once: its number may be another's afterwards. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#calls.close(this.#fd)
  }

  /**
   * An end that is closed before it has read all is told once, by ECONNRESET. What it had sent
   * before is still there, behind that.
   */
  #receive(): number {
    const { view, address } = this.#memory
    let result = -errno.ECONNRESET
    for (let tries = 0; tries < 2 && result === -errno.ECONNRESET; tries += 1) {
      this.#setNumber(place.vector + iovec.length, mostRecordBytes)
      this.#setNumber(place.message + msghdr.controlLength, controlBytes)
      view.setInt32(place.message + msghdr.flags, 0, true)
      result = this.#calls.recvmsg(this.#fd, address, MSG_CMSG_CLOEXEC)
    }
    return result
  }

  #decode(length: number, fds: readonly number[]): RecordPart {
    const { bytes, view } = this.#memory
    const flags = view.getInt32(place.message + msghdr.flags, true)
    const isShort = length < header.size
    const said = bytes.toString('latin1', place.data, place.data + magic.length)
    if (isShort || said !== magic) {
      if ((flags & MSG_CTRUNC) !== 0) throw this.#cutOff(fds.length, undefined)
      throw handOverFault('what came from the other process is not of an Usher')
    }
    const itsFormat = view.getUint8(place.data + header.format)
    if (itsFormat !== format)
      throw handOverFault(
        `the other Usher is of another version: it hands over in format ${itsFormat}, and this one in ${format}`,
      )
    const announced = view.getUint16(place.data + header.fds, true)
    if ((flags & MSG_CTRUNC) !== 0 || fds.length < announced)
      throw this.#cutOff(fds.length, announced)
    const kind = kinds[view.getUint8(place.data + header.kind)]
    const isLast = view.getUint8(place.data + header.isLast)
    if (
      kind === undefined ||
      isLast > 1 ||
      fds.length !== announced ||
      (flags & MSG_TRUNC) !== 0
    )
      throw handOverFault('a record of the other process is malformed')
    const text = bytes.subarray(place.data + header.size, place.data + length)
    return { kind, isLast: isLast === 1, text, fds }
  }

  /** As a control message; its length as msg_controllen has it. */
  #writeFds(fds: readonly number[]): number {
    if (fds.length === 0) return 0
    const { view } = this.#memory
    const length = cmsghdr.data + fds.length * fdBytes
    this.#setNumber(place.control + cmsghdr.length, length)
    view.setInt32(place.control + cmsghdr.level, SOL_SOCKET, true)
    view.setInt32(place.control + cmsghdr.type, SCM_RIGHTS, true)
    for (const [i, fd] of fds.entries())
      view.setInt32(place.control + cmsghdr.data + i * fdBytes, fd, true)
    return Math.ceil(length / 8) * 8
  }

  /** Of all control messages: whatever has arrived is ours to close. */
  #readFds(): readonly number[] {
    const { view } = this.#memory
    const fds: number[] = []
    const end = place.control + this.#number(place.message + msghdr.controlLength)
    for (let at = place.control; at + cmsghdr.data <= end;) {
      const length = this.#number(at + cmsghdr.length)
      const isRights =
        view.getInt32(at + cmsghdr.level, true) === SOL_SOCKET &&
        view.getInt32(at + cmsghdr.type, true) === SCM_RIGHTS
      const count = isRights ? Math.floor((length - cmsghdr.data) / fdBytes) : 0
      for (let i = 0; i < count; i += 1)
        fds.push(view.getInt32(at + cmsghdr.data + i * fdBytes, true))
      at += Math.max(cmsghdr.data, Math.ceil(length / 8) * 8)
    }
    return fds
  }

  /** The kernel drops what does not fit and says no more than that it did. */
  #cutOff(arrived: number, announced: number | undefined): UsherError {
    const count = announced === undefined ? `${arrived}` : `${arrived} of ${announced}`
    return handOverFault(
      `descriptors were cut off on their way into this process: ${count} arrived. Either its limit on open files (RLIMIT_NOFILE, ${this.#openFiles}) is too low: raise it (LimitNOFILE=, ulimit -n); or a security policy such as SELinux keeps them out: see the audit log`,
    )
  }

  #must(what: string, result: number): void {
    if (result < 0)
      throw handOverFault(
        `the other process can't be spoken to: the kernel refuses ${what} with ${errnoName(result)}`,
      )
  }

  #number(at: number): number {
    return Number(this.#memory.view.getBigUint64(at, true))
  }

  #setNumber(at: number, value: number): void {
    this.#memory.view.setBigUint64(at, BigInt(value), true)
  }
}

const broken = (what: string, result: number): UsherError => {
  const cause = systemError(what, result)
  return handOverFault(`the other process can't be spoken to: ${cause.message}`, cause)
}

const unsent = (result: number, fds: number): UsherError => {
  const cause = systemError('sendmsg', result)
  if (result === -ETOOMANYREFS)
    return handOverFault(
      'the kernel passes on no more descriptors: more than the limit on open files (RLIMIT_NOFILE) are under way between processes of this user (ETOOMANYREFS)',
      cause,
    )
  return fds === 0
    ? broken('sendmsg', result)
    : handOverFault(`${fds} descriptors can't be handed over: ${cause.message}`, cause)
}
