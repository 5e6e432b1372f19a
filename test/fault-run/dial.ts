import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import type { RelayProtocol } from '../../src/model/service.ts'

/** What clients dial. */
export interface Door {
  readonly protocol: RelayProtocol
  readonly address: string
  readonly port: number
}

/** How long an answer is waited for, in milliseconds. */
const tcpMs = 5000
/** Nothing is lost on the loopback: silence means that nobody answers. */
const udpMs = 2000

/**
 * What a new client gets: the name of a backend, an errno, `closed` or `silence`, for
 * which it waits for `patienceMs` milliseconds.
 */
export const dial = (door: Door, patienceMs?: number): Promise<string> =>
  door.protocol === 'TCP'
    ? dialTcp(door, patienceMs ?? tcpMs)
    : dialUdp(door, patienceMs ?? udpMs)

const dialTcp = ({ address, port }: Door, patienceMs: number): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(port, address)
    let heard = ''
    const end = (answer: string): void => {
      resolve(answer)
      socket.destroy()
    }
    socket.setTimeout(patienceMs, () => end('silence'))
    socket.on('data', data => (heard += data.toString()))
    socket.on('end', () => end(heard || 'closed'))
    socket.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message))
  })

const dialUdp = ({ address, port }: Door, patienceMs: number): Promise<string> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    const timer = setTimeout(() => end('silence'), patienceMs)
    let over = false
    const end = (answer: string): void => {
      if (over) return
      over = true
      clearTimeout(timer)
      resolve(answer)
      socket.close()
    }
    socket.on('message', message => end(message.toString()))
    socket.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message))
    socket.connect(port, address, () => socket.send('who are you?'))
  })
