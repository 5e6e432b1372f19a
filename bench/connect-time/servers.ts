import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'

/** An address of loopback that says its name to whoever connects. */
export interface NamedServer {
  readonly address: string
  readonly port: number
  readonly close: () => void
}

/** One for each address; the name is the address. */
export const serveNames = (
  addresses: readonly string[],
): Promise<readonly NamedServer[]> => Promise.all(addresses.map(serve))

const serve = async (address: string): Promise<NamedServer> => {
  const server: Server = createServer(socket => {
    socket.on('error', () => {}) // Its client has heard enough.
    socket.end(address)
  })
  server.listen({ host: address, port: 0 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { address, port, close: () => void server.close() }
}

/** Who answers there; undefined when the connect fails. */
export const whoAnswers = (host: string, port: number): Promise<string | undefined> =>
  new Promise(resolve => {
    let heard = ''
    const socket = connect({ host, port })
    socket.setEncoding('latin1')
    socket.on('data', text => void (heard += String(text)))
    socket.on('error', () => resolve(undefined))
    socket.on('end', () => resolve(heard))
  })
