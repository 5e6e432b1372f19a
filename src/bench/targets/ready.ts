import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { backendNames, type Ports, protocolOf } from '../backends/backend.ts'

const tryEveryMs = 50

/** Waits until every port serves. False when they don't within `ms` or `signal` says stop. */
export const waitUntilServing = async (
  ports: Ports,
  ms: number,
  signal: AbortSignal,
): Promise<boolean> => {
  for (const name of backendNames) {
    const serves = protocolOf(name) === 'tcp' ? servesTcp : servesUdp
    // Bounded by count, not by the clock, for a clock may jump.
    for (
      let tries = Math.ceil(ms / tryEveryMs);
      !(await serves(ports[name]));
      tries -= 1
    ) {
      if (tries <= 0 || signal.aborted) return false
      await sleep(tryEveryMs)
    }
  }
  return !signal.aborted
}

const servesTcp = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    const finish = (serves: boolean): void => {
      resolve(serves)
      socket.destroy()
    }
    socket.once('error', () => finish(false))
    // A free port of the ephemeral range can connect to itself (RFC 9293, 3.5).
    socket.once('connect', () => finish(socket.localPort !== port))
  })

const servesUdp = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    const finish = (serves: boolean): void => {
      clearTimeout(timer)
      socket.removeAllListeners('message').close()
      resolve(serves)
    }
    const timer = setTimeout(() => finish(false), tryEveryMs)
    socket.on('error', () => undefined)
    socket.once('message', () => finish(true))
    socket.send('ready?', port, '127.0.0.1', () => undefined)
  })
