import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import type { Test } from 'tap'
import type { Endpoint } from '../../../bench/services.ts'

const replyWithinMs = 5000

/** Sends `text`, and gives what comes until the other side closes or `enough` holds. */
export const talk = async (
  { address, port }: Endpoint,
  text: string | Buffer,
  enough: (received: string) => boolean = () => false,
): Promise<string> => {
  const socket = connect(port, address)
  socket.setTimeout(replyWithinMs, () => socket.destroy(new Error('no answer in time')))
  socket.write(text)
  let received = ''
  try {
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      received += chunk.toString('latin1')
      if (enough(received)) break
    }
  } finally {
    socket.destroy()
  }
  return received
}

export const get = (to: Endpoint, path: string): Promise<string> =>
  talk(to, `GET ${path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n`)

/** The length of the body after a head that says 200, else the status line. */
export const bodyLength = (response: string): number | string => {
  const [head = '', body = ''] = response.split('\r\n\r\n')
  return head.startsWith('HTTP/1.1 200 ') ? body.length : (head.split('\r\n')[0] ?? '')
}

/** A datagram sent, and what came back. */
export const echo = async (
  { address, port }: Endpoint,
  text: string,
): Promise<string> => {
  const socket = createSocket('udp4')
  try {
    socket.send(text, port, address)
    const signal = AbortSignal.timeout(replyWithinMs)
    const [reply] = (await once(socket, 'message', { signal })) as [Buffer]
    return reply.toString()
  } finally {
    socket.close()
  }
}

/** A server that says its name to whoever connects. */
export const namedServer = async (t: Test, name: string): Promise<Endpoint> => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.end(name)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { address: '127.0.0.1', port: (server.address() as AddressInfo).port }
}

/** Who answers so many connections, one after the other. */
export const answers = async (
  to: Endpoint,
  count: number,
): Promise<readonly string[]> => {
  const heard: string[] = []
  for (let i = 0; i < count; i += 1) heard.push(await talk(to, ''))
  return heard
}
