import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { answerParent } from '../../../bench/process/child.ts'

/** What a process in one place is asked: to listen, or to look who answers elsewhere. */
export type PeerQuestion =
  | { readonly listen: string; readonly port: number; readonly label: string }
  | { readonly address: string; readonly port: number }

/** Who answers, and whom it takes the client for. */
const listen = async (address: string, port: number, label: string) => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.end(`${label} sees ${socket.remoteAddress}`)
  }).listen(port, address)
  await once(server, 'listening')
  return String((server.address() as AddressInfo).port)
}

const look = async (address: string, port: number): Promise<string> => {
  const socket = connect(port, address).setTimeout(1500, () =>
    socket.destroy(new Error('silence')),
  )
  try {
    return await text(socket)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code ?? message
  }
}

answerParent(question => {
  const asked = question as PeerQuestion
  return 'listen' in asked
    ? listen(asked.listen, asked.port, asked.label)
    : look(asked.address, asked.port)
})
