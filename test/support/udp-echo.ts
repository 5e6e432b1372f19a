import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { testHost } from './ports.ts'
import { endpoint } from './relay-fixture.ts'

/** A UDP server that sends back what it gets, after `name`; closed when the test ends. */
export const udpEcho = async (
  t: Test,
  host = testHost,
  name = '',
): Promise<RelayEndpoint> => {
  const socket = createSocket('udp4')
  t.teardown(() => socket.close())
  socket.on('message', (message, { address, port }) => {
    socket.send(Buffer.concat([Buffer.from(name), message]), port, address)
  })
  socket.bind(0, host)
  await once(socket, 'listening')
  return endpoint(host, socket.address().port)
}

/** Sends one datagram from a new port: the answer, or '' when none came in time. */
export const askUdp = async (
  port: number,
  text: string,
  host = testHost,
  ms = 2000,
): Promise<string> => {
  const socket = createSocket('udp4')
  try {
    const answer = once(socket, 'message', { signal: AbortSignal.timeout(ms) })
    socket.send(text, port, host)
    const [message] = (await answer) as [Buffer]
    return message.toString()
  } catch (error) {
    if ((error as Error).name === 'AbortError') return ''
    throw error
  } finally {
    socket.close()
  }
}
