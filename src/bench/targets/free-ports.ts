import { createSocket } from 'node:dgram'
import { type AddressInfo, createServer } from 'node:net'
import { backendNames, type Ports, protocolOf } from '../backends/backend.ts'

interface Held {
  readonly port: number
  readonly release: () => Promise<void>
}

/**
 * A free port of 127.0.0.1 for each backend's proxy, chosen by the system. All are held
 * until the last is known, so that no two are the same.
 */
export const chooseFreePorts = async (): Promise<Ports> => {
  const held = await Promise.all(
    backendNames.map(name => (protocolOf(name) === 'tcp' ? holdTcp() : holdUdp())),
  )
  await Promise.all(held.map(({ release }) => release()))
  const entries = backendNames.map((name, index) => [name, held[index]?.port ?? 0])
  return Object.fromEntries(entries) as Ports
}

const holdTcp = (): Promise<Held> =>
  new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    const release = () => new Promise<void>(done => server.close(() => done()))
    server.listen(0, '127.0.0.1', () =>
      resolve({ port: (server.address() as AddressInfo).port, release }),
    )
  })

const holdUdp = (): Promise<Held> =>
  new Promise((resolve, reject) => {
    const socket = createSocket('udp4').once('error', reject)
    const release = () => new Promise<void>(done => socket.close(() => done()))
    socket.bind(0, '127.0.0.1', () => resolve({ port: socket.address().port, release }))
  })
