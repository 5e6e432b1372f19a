import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Destination } from './outcome.ts'

/** A TCP connection, or a UDP socket, that is kept. */
export interface Connection {
  /** The backend at the other end; '' when nobody answers. */
  ask(): Promise<string>
  /** Of UDP: asks for datagrams all the time, and says nothing from then on. */
  subscribe(): void
  /** Who has sent since the last call. */
  heard(): readonly string[]
  /** At once: no kernel on the way has to remember it. */
  close(): void
}

/** Who hears nothing for so long asks again, or gives up. */
const answerMs = 500

export const openConnection = (to: Destination): Promise<Connection> =>
  to.protocol === 'TCP' ? openTcp(to) : openUdp(to)

const openTcp = async ({ address, port }: Destination): Promise<Connection> => {
  const socket = connect({ host: address, port, noDelay: true })
  await once(socket, 'connect')
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.destroy())
  return {
    ask: () =>
      oneAnswer(heard => {
        if (socket.destroyed) heard('')
        const gone = (): void => heard('')
        socket.once('data', heard)
        socket.once('close', gone)
        socket.write('+\n')
        return () => void socket.off('data', heard).off('close', gone)
      }),
    subscribe: () => {
      throw new Error('TCP has no subscribers')
    },
    heard: () => [],
    close: () => void socket.resetAndDestroy(),
  }
}

const openUdp = async ({ address, port }: Destination): Promise<Connection> => {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
  // Refusals are no answers.
  socket.on('error', () => {})
  socket.connect(port, address)
  await once(socket, 'connect')
  const senders = new Set<string>()
  socket.on('message', data => senders.add(nameIn(data)))
  return {
    subscribe: () => socket.send('~\n', () => {}),
    heard: () => {
      const names = [...senders].toSorted()
      senders.clear()
      return names
    },
    ask: () =>
      oneAnswer(heard => {
        socket.once('message', heard)
        socket.send('+\n', () => {})
        return () => void socket.off('message', heard)
      }),
    close: () => void socket.close(),
  }
}

const nameIn = (data: Buffer | string): string => data.toString().split(' ')[0] ?? ''

type Heard = (data: Buffer | string) => void

const oneAnswer = (start: (heard: Heard) => () => void): Promise<string> =>
  new Promise(resolve => {
    const heard: Heard = data => {
      clearTimeout(timer)
      setImmediate(stop)
      resolve(nameIn(data))
    }
    const timer = setTimeout(() => heard(''), answerMs)
    const stop = start(heard)
  })
