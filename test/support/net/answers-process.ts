import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { argv, stdin, stdout } from 'node:process'
import { answer, readAnswers } from '../whole-answers.ts'

/*
 * In a namespace of a test's: a server of whole answers, whose port is the first line of the
 * output, and once something is said, clients that go to HOST PORT for VISITS answers. What they
 * have seen is the second line.
 */

const [host = '', port = '', visits = ''] = argv.slice(2)
const server = createServer({ allowHalfOpen: true }, socket => {
  socket.on('error', () => {})
  socket.end(answer)
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
stdout.write(`${(server.address() as AddressInfo).port}\n`)
await once(stdin, 'data')
const seen = await readAnswers(Number(port), host, Number(visits))
stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit())
