import dgram from 'node:dgram'
import net from 'node:net'
import { createInterface } from 'node:readline'
import type { Request } from './agent.ts'

// The agent's own process: a request a line, and an answer for each.

const open = new Set<{ close(): unknown }>()
const typeOf = (address: string) => (address.includes(':') ? 'udp6' : 'udp4')

const serve = (address: string, port: number): Promise<unknown> => {
  const server = net.createServer(socket => socket.on('error', () => {}).end(`${port}`))
  const udp = dgram.createSocket(typeOf(address))
  udp.on('message', (_, from) => udp.send(`${port}`, from.port, from.address))
  open.add(server).add(udp)
  return Promise.all([
    new Promise<void>(done => server.listen(port, address, done)),
    new Promise<void>(done => udp.bind(port, address, done)),
  ])
}
const outcome = ({ code }: NodeJS.ErrnoException): string =>
  code === 'ECONNREFUSED' ? 'refused' : (code ?? 'error')
const askTcp = (host: string, port: number, ms: number): Promise<string> =>
  new Promise(resolve => {
    const socket = net.connect({ host, port })
    const timer = setTimeout(() => end('silent'), ms)
    const end = (answer: string): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(answer)
    }
    socket.on('data', data => end(data.toString()))
    socket.on('error', error => end(outcome(error)))
  })
const askUdp = (address: string, port: number, ms: number): Promise<string> =>
  new Promise(resolve => {
    const socket = dgram.createSocket(typeOf(address))
    const timer = setTimeout(() => end('silent'), ms)
    const end = (answer: string): void => {
      clearTimeout(timer)
      socket.close()
      resolve(answer)
    }
    socket.on('message', data => end(data.toString()))
    socket.on('error', error => end(outcome(error)))
    socket.connect(port, address, () => socket.send('?'))
  })
const answerTo = async (request: Request): Promise<string> => {
  if (request.op === 'ask') {
    const ask = request.protocol === 'TCP' ? askTcp : askUdp
    return ask(request.address, request.port, request.ms)
  }
  if (request.op === 'serve')
    await Promise.all(request.ports.map(port => serve(request.address, port)))
  else for (const one of open) one.close()
  if (request.op === 'unserve') open.clear()
  return ''
}
createInterface({ input: process.stdin }).on('line', line => {
  const request = JSON.parse(line) as Request & { id: number }
  void answerTo(request).then(answer =>
    process.stdout.write(`${JSON.stringify({ id: request.id, answer })}\n`),
  )
})
