import { loadSyscalls, type Syscalls } from '../../../src/ffi/syscalls.ts'
import { iovec, msghdr } from '../../../src/ffi/struct-layout.ts'
import { silentObserver } from '../../../src/relay/relay.ts'
import type { HandOverPlace, RelayListener } from '../../../src/relay/relay.ts'
import { messageOf } from '../../../src/util/usher-error.ts'
import { makeLinuxRelayWith } from '../../support/linux-relay.ts'
import { defaultLimits } from '../../support/relay-fixture.ts'

// A relay in a process of its own, which dies by SIGKILL at a step of the protocol of a hand-over.
// Argument: the step (see `Step`).

/**
 * `before` it sends a message of this kind, when it has `sent` it, or when it has `received` one and the
 * other side does not know that yet; the second of them, if it says so; '' never.
 */
export type Step = '' | `${'before' | 'sent' | 'received'} ${string}`

export type ChildCall = { readonly id: number } & (
  | { readonly name: 'apply'; readonly listeners: readonly RelayListener[] }
  | { readonly name: 'handOver' | 'handedOver' | 'finishTakeOver' | 'drain' }
  | { readonly name: 'takeOver'; readonly place: HandOverPlace }
)

const [step = ''] = process.argv.slice(2)
const [when = '', kind = '', which = '1'] = step.split(' ')
/** So many are to come yet. */
let left = Number(which)

/** Of a record: what stands before its text, and where it says that it is the last one of its message. */
const recordHeader = 8
const isLastAt = 5

const die = (): void => void process.kill(process.pid, 'SIGKILL')

/** The same calls; the records of a hand-over are looked at on their way. */
const mortal = (calls: Syscalls): Syscalls => {
  const memories = new Map<number, ReturnType<Syscalls['allocate']>>()
  /** Its text, and whether it is the last one of its message; a record that is none has no text. */
  const recordAt = (
    header: number,
    length?: number,
  ): { readonly text: string; readonly isLast: boolean } => {
    const { view, bytes } = memories.get(header) ?? {}
    if (view === undefined || bytes === undefined) return { text: '', isLast: false }
    const vector = Number(view.getBigUint64(msghdr.iov, true)) - header
    const start = Number(view.getBigUint64(vector, true)) - header
    const size = length ?? Number(view.getBigUint64(vector + iovec.length, true))
    const text = bytes.toString('latin1', start + recordHeader, start + size)
    return { text, isLast: bytes[start + isLastAt] === 1 }
  }
  const begins = (text: string): boolean => text.startsWith(`{"kind":"${kind}"`)
  /** A long message is several records: it is sent when the last one is. */
  let isLeaving = false
  return {
    ...calls,
    allocate: size => {
      const memory = calls.allocate(size)
      memories.set(memory.address, memory)
      return memory
    },
    sendmsg: (fd, header, flags) => {
      const { text, isLast } = recordAt(header)
      const isNext = begins(text) && left === 1
      if (isNext && when === 'before') die()
      const result = calls.sendmsg(fd, header, flags)
      if (result < 0 || when === 'received') return result
      if (begins(text)) left -= 1
      isLeaving ||= isNext
      if (isLeaving && text !== '' && isLast) die()
      return result
    },
    recvmsg: (fd, header, flags) => {
      const result = calls.recvmsg(fd, header, flags)
      if (when !== 'received' || result <= 0) return result
      if (!begins(recordAt(header, result).text)) return result
      left -= 1
      if (left === 0) die()
      return result
    },
  }
}

const say = (message: object): void => void process.send?.(message)

const relay = makeLinuxRelayWith({ workers: 2, calls: mortal(loadSyscalls()) })({
  limits: defaultLimits,
  openFileLimit: 20_000,
  observer: silentObserver,
})

const answer = (call: ChildCall): unknown => {
  if (call.name === 'apply') return relay.apply(call.listeners)
  if (call.name === 'takeOver') return relay.takeOver(call.place)
  if (call.name === 'drain') return relay.drain(0)
  return relay[call.name]()
}

process.on('message', message => {
  const call = message as ChildCall
  Promise.resolve()
    .then(() => answer(call))
    .then(
      result => say({ id: call.id, result: result ?? null }),
      (error: unknown) => say({ id: call.id, error: messageOf(error) }),
    )
})
process.on('disconnect', () => process.exit(0))
say({ id: 0, result: null })
