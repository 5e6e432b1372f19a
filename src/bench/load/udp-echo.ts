import { createSocket } from 'node:dgram'
import { ErrorCounts, type Load } from './load.ts'
import { requestBytes } from './request.ts'

/** A datagram that has not come back for so many sweeps is lost: 500 to 550 ms. */
const lostAfterSweeps = 10
const sweepMs = 50

/**
 * Datagrams to an echo over `flows` flows (a socket each), with `window` datagrams of
 * each on their way at any time: the closed loop keeps queues short, so a loss is the
 * target's doing. A lost datagram is counted and replaced.
 */
export const startUdpEcho = (port: number, flows: number, window: number): Load => {
  const errors = new ErrorCounts()
  let done = 0
  let sweep = 0
  const opened = Array.from({ length: flows }, () =>
    openFlow(
      port,
      window,
      errors,
      () => sweep,
      () => (done += 1),
    ),
  )
  const sweeper = setInterval(() => {
    sweep += 1
    for (const flow of opened) flow.replaceLost()
  }, sweepMs)
  return {
    done: () => done,
    errors: errors.counts,
    stop: () => {
      clearInterval(sweeper)
      for (const flow of opened) flow.close()
    },
  }
}

/** A place in a flow's window: its datagram carries the slot's index and turn. */
interface Slot {
  readonly datagram: Buffer
  turn: number
  sentAt: number
}

const openFlow = (
  port: number,
  window: number,
  errors: ErrorCounts,
  now: () => number,
  cameBack: () => void,
) => {
  const slots = Array.from({ length: window }, (_, index): Slot => {
    const datagram = Buffer.alloc(requestBytes)
    datagram.writeUInt16BE(index)
    return { datagram, turn: 0, sentAt: 0 }
  })
  const socket = createSocket('udp4')
  const onSent = (error: Error | null): void => {
    if (error && !closed) errors.addError(error)
  }
  let closed = false
  let connected = false
  const send = (slot: Slot): void => {
    slot.turn = (slot.turn + 1) >>> 0
    slot.sentAt = now()
    slot.datagram.writeUInt32BE(slot.turn, 2)
    socket.send(slot.datagram, onSent)
  }
  socket.on('error', error => errors.addError(error))
  socket.on('message', message => {
    const slot =
      message.length === requestBytes ? slots[message.readUInt16BE()] : undefined
    if (slot === undefined) return errors.add('wrong response')
    if (slot.turn !== message.readUInt32BE(2)) return errors.add('late or twice')
    cameBack()
    send(slot)
  })
  socket.connect(port, '127.0.0.1', () => {
    connected = true
    for (const slot of slots) send(slot)
  })
  return {
    replaceLost: () => {
      if (!connected) return
      for (const slot of slots) {
        if (now() - slot.sentAt < lostAfterSweeps) continue
        errors.add('lost')
        send(slot)
      }
    },
    close: () => {
      closed = true
      socket.close()
    },
  }
}
