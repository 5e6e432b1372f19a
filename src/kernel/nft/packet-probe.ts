import { once } from 'node:events'
import net from 'node:net'
import type { Clock } from '../../util/clock.ts'
import type { AddressPort, IpFamily } from '../../util/ip.ts'

/** Steers connections to the first to the second. */
export type Steer = (from: AddressPort, to: AddressPort) => Promise<void>

/**
 * Listens on two ports of the loopback address, lets the first be steered to the second,
 * and says whether a connection to the first arrives at the second. Rejects when it
 * can't listen, and when steering does.
 */
export type PacketProbe = (family: IpFamily, steer: Steer) => Promise<boolean>

/** Milliseconds for a connection within the host. */
const patienceMs = 2000

/** In the network namespace of this process. */
export const localPacketProbe =
  (clock: Clock): PacketProbe =>
  async (family, steer) => {
    const address = family === 'IPv4' ? '127.0.0.1' : '::1'
    // The first is held too: no connection of another program is to be led astray.
    const [first, second] = [net.createServer(), net.createServer()]
    try {
      const from = { address, port: await listen(first, address) }
      const to = { address, port: await listen(second, address) }
      await steer(from, to)
      return await arrives(from, second, clock)
    } finally {
      first.close()
      second.close()
    }
  }

const listen = async (server: net.Server, address: string): Promise<number> => {
  server.on('connection', socket => socket.destroy())
  server.listen(0, address)
  await once(server, 'listening')
  return (server.address() as net.AddressInfo).port
}

const arrives = (from: AddressPort, at: net.Server, clock: Clock): Promise<boolean> =>
  new Promise(resolve => {
    const client = net.connect({ host: from.address, port: from.port })
    const end = (arrived: boolean): void => {
      clock.clearTimeout(timer)
      client.destroy()
      resolve(arrived)
    }
    const timer = clock.setTimeout(() => end(false), patienceMs)
    at.once('connection', () => end(true))
    client.once('error', () => end(false))
    // Accepted by the wrong one, which closes at once.
    client.once('close', () => end(false))
  })
