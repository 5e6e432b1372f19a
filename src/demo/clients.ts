import { createSocket } from 'node:dgram'
import { get } from 'node:http'
import { connect } from 'node:net'
import type { AddressPort } from '../util/ip.ts'

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
export const askHttp = (target: AddressPort, localAddress?: string): Promise<Answer> =>
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
export const askTcpEcho = (target: AddressPort): Promise<Answer> =>
  new Promise(resolve => {
    let text = ''
    const socket = connect({ host: target.address, port: target.port })
    socket.setTimeout(tcpTimeoutMs, () => socket.destroy(new Error('no answer in 5 s')))
    socket.setEncoding('utf8').on('data', (part: string) => (text += part))
    socket.on('end', () => resolve(read(text)))
    socket.on('error', error => resolve({ error: error.message }))
    socket.end('hello\n')
  })

/** A UDP client that keeps its port, so that all its datagrams are one flow to Usher. */
export const openUdpClient = () => {
  const socket = createSocket('udp4')
  const waiting = new Map<string, (answer: Answer) => void>()
  let sent = 0
  // Replies may come out of order, or not at all: each says what it is the reply to.
  socket.on('message', reply => {
    const text = reply.toString()
    waiting.get(text.split(' ').at(-1) ?? '')?.(read(text))
  })
  const failAll = (error: string): void => {
    for (const settle of waiting.values()) settle({ error })
  }
  socket.on('error', error => failAll(error.message))
  /** One datagram and its reply. Never rejects. */
  const ask = ({ address, port }: AddressPort): Promise<Answer> =>
    new Promise(resolve => {
      const token = String(++sent)
      const settle = (answer: Answer): void => {
        clearTimeout(timer)
        waiting.delete(token)
        resolve(answer)
      }
      const timer = setTimeout(() => settle({ error: 'no reply in 2 s' }), udpTimeoutMs)
      waiting.set(token, settle)
      socket.send(`hello ${token}`, port, address, error => {
        if (error) settle({ error: error.message })
      })
    })
  const close = (): void => {
    failAll('the client was closed')
    socket.close()
  }
  return { ask, close }
}

/** One datagram from a port of its own, and its reply. Never rejects. */
export const askUdpEcho = async (target: AddressPort): Promise<Answer> => {
  const client = openUdpClient()
  const answer = await client.ask(target)
  client.close()
  return answer
}
