import { createServer, type Socket } from 'node:net'
import { answerHttp } from '../backends/http.ts'
import { answerParent } from '../process/child.ts'
import type { Behaviour, ServerQuestion } from './servers.ts'

/** What `GET /primary` is answered with, by the address that is asked. */
let primary = ''

/** Reads what comes, so that an end is seen. */
const listening = (socket: Socket): Socket => socket.resume()

const answerOf = (heard: Buffer, address: string): string => {
  if (heard[0] !== 'G'.charCodeAt(0)) return '+PONG\r\n'
  const isUp = !heard.includes('/primary') || address === primary
  const status = isUp ? '200 OK' : '503 Service Unavailable'
  return `HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
}

const behaviours: Readonly<Record<Behaviour, (socket: Socket, turn: number) => void>> = {
  http: answerHttp,
  greets: socket => listening(socket).end('hello\n'),
  /** Waits for a line first. */
  answers: socket => void socket.once('data', () => socket.end('hello\n')),
  closes: (socket, turn) =>
    turn % 2 === 0 ? listening(socket).end() : socket.resetAndDestroy(),
  checked: socket =>
    void socket.once('data', heard =>
      socket.end(answerOf(heard, (socket.localAddress ?? '').replace('::ffff:', ''))),
    ),
  /** The end of a StartupMessage, and the question for a password. */
  postgres: socket =>
    void socket.on('data', heard =>
      heard.readInt32BE(Math.min(4, heard.length - 4)) === 80_877_103
        ? socket.write('N')
        : socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3])),
    ),
}

const listen = (behaviour: Behaviour, address: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    let turn = 0
    const server = createServer(socket => {
      socket.on('error', () => socket.destroy())
      behaviours[behaviour](socket, (turn += 1))
    })
    server.once('error', reject)
    server.listen({ host: address, port, backlog: 4096 }, () => resolve())
  })

answerParent(async asked => {
  const question = asked as ServerQuestion
  if (question.kind === 'primary') primary = question.address
  else await listen(question.behaviour, question.at.address, question.at.port)
})
