import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import type { Endpoint } from '../services.ts'

/** Longer than a retry takes that meets a silent endpoint first. */
const quietMs = 500
const replyWithinMs = 250

/**
 * Whether a server behind `address` takes a client: sends something, or at least leaves
 * the connection open. That it was accepted says nothing, a proxy does that by itself.
 */
export const servesTcp = ({ address, port }: Endpoint): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, address)
    const finish = (serves: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      // A free port of the ephemeral range can connect to itself (RFC 9293, 3.5).
      resolve(serves && socket.localPort !== port)
    }
    let timer = setTimeout(() => finish(false), quietMs)
    socket.once('error', () => finish(false)).once('close', () => finish(false))
    socket.once('data', () => finish(true))
    socket.once('connect', () => {
      clearTimeout(timer)
      timer = setTimeout(() => finish(true), quietMs)
      socket.write('GET /64 HTTP/1.1\r\nHost: bench\r\n\r\n')
    })
  })

/** Whether a datagram to `address` is answered. */
export const servesUdp = ({ address, port }: Endpoint): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    const finish = (serves: boolean): void => {
      clearTimeout(timer)
      socket.removeAllListeners('message').close()
      resolve(serves)
    }
    const timer = setTimeout(() => finish(false), replyWithinMs)
    socket.on('error', () => undefined)
    socket.once('message', () => finish(true))
    socket.send('ready?', port, address, () => undefined)
  })
