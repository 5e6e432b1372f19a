import { createSocket } from 'node:dgram'
import { get } from 'node:http'
import { connect } from 'node:net'

export interface Target {
  readonly address: string
  readonly port: number
}

/** Which backend answered, or why none did. */
export type Answer = { readonly backend: string } | { readonly error: string }

/** Longer than Usher goes on dialling (3.75 s), so that its verdict is what is seen. */
const tcpTimeoutMs = 5000
const udpTimeoutMs = 2000

/** Every backend begins with its name: `web-1 says ...`. */
const read = (reply: string): Answer => {
  const backend = /^(\S+) says /.exec(reply)?.[1]
  return backend === undefined
    ? { error: `an answer of no backend: ${JSON.stringify(reply.slice(0, 40))}` }
    : { backend }
}

/** One GET on a connection of its own. Never rejects. */
export const askHttp = (target: Target, localAddress?: string): Promise<Answer> =>
  new Promise(resolve => {
    const from = localAddress === undefined ? {} : { localAddress }
    const where = { host: target.address, port: target.port, agent: false, ...from }
    const request = get({ ...where, timeout: tcpTimeoutMs }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.on('end', () => resolve(read(text)))
      response.on('error', error => resolve({ error: error.message }))
    })
    request.on('timeout', () => request.destroy(new Error('no answer in 5 s')))
    request.on('error', error => resolve({ error: error.message }))
  })

/** Sends a line, half-closes, and reads up to the end. Never rejects. */
export const askTcpEcho = (target: Target): Promise<Answer> =>
  new Promise(resolve => {
    let text = ''
    const socket = connect({ host: target.address, port: target.port })
    socket.setTimeout(tcpTimeoutMs, () => socket.destroy(new Error('no answer in 5 s')))
    socket.setEncoding('utf8').on('data', (part: string) => (text += part))
    socket.on('end', () => resolve(read(text)))
    socket.on('error', error => resolve({ error: error.message }))
    socket.end('hello\n')
  })

/** One datagram from a port of its own, and its reply. Never rejects. */
export const askUdpEcho = (target: Target): Promise<Answer> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    const settle = (answer: Answer): void => {
      clearTimeout(timer)
      socket.close()
      resolve(answer)
    }
    const timer = setTimeout(() => settle({ error: 'no reply in 2 s' }), udpTimeoutMs)
    socket.once('error', error => settle({ error: error.message }))
    socket.once('message', reply => settle(read(reply.toString())))
    // A connected socket is told when its datagram is refused.
    socket.once('connect', () => socket.send('hello\n'))
    socket.connect(target.port, target.address)
  })
