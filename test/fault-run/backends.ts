import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { joinHostPort } from '../../src/util/ip.ts'
import { backendAddresses, backendPorts } from './addresses.ts'

export type Close = () => void

/** Starts real servers, TCP and UDP, each of which answers with its `ip:port`. */
export const startBackends = async (): Promise<Close> => {
  const closes: Close[] = []
  for (const address of backendAddresses)
    for (const port of Object.values(backendPorts))
      closes.push(await tcpServer(address, port), await udpServer(address, port))
  return () => {
    for (const close of closes) close()
  }
}

const tcpServer = async (address: string, port: number): Promise<Close> => {
  const name = joinHostPort(address, port)
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.end(name)
  })
  server.listen(port, address)
  await once(server, 'listening')
  return () => server.close()
}

const udpServer = async (address: string, port: number): Promise<Close> => {
  const name = joinHostPort(address, port)
  const socket = createSocket('udp4')
  socket.on('message', (_, from) => socket.send(name, from.port, from.address))
  socket.on('error', () => {})
  socket.bind(port, address)
  await once(socket, 'listening')
  return () => socket.close()
}
