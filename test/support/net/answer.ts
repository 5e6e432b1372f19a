import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A backend's servers, TCP and UDP: to a line or datagram they answer with the backend's
 * name and the client's address as they see it. TCP connections end after `?`; after any
 * other line they stay. Who sends `~` by UDP is sent an answer every 50 ms for a minute.
 */
export const answer = async (
  name: string,
  addresses: readonly string[],
  port: number,
): Promise<void> => {
  const reply = (address: string | undefined): string => `${name} ${address ?? ''}\n`
  const servers = addresses.map(address => {
    const server = createServer({ noDelay: true }, socket => {
      socket.on('error', () => socket.destroy())
      socket.on('data', data => {
        if (data.toString().startsWith('?')) socket.end(reply(socket.remoteAddress))
        else socket.write(reply(socket.remoteAddress))
      })
    })
    return server.listen({ host: address, port, backlog: 4096 })
  })
  const sockets = addresses.map(address => {
    const socket = createSocket({
      type: address.includes(':') ? 'udp6' : 'udp4',
      recvBufferSize: 1 << 20,
    })
    socket.on('message', (data, from) => {
      const send = (): void => socket.send(reply(from.address), from.port, from.address)
      send()
      if (!data.toString().startsWith('~')) return
      const timer = setInterval(send, 50)
      setTimeout(() => clearInterval(timer), 60_000)
    })
    return socket.bind(port, address)
  })
  await Promise.all([...servers, ...sockets].map(each => once(each, 'listening')))
}
