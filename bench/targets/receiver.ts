import type { Endpoint } from '../services.ts'
import { freePorts } from '../topology/probe.ts'
import { ProxyProcess } from './proxy.ts'
import type { Order, RunningTarget } from './target.ts'

/** Where a line for each connection goes. */
export type LogTo = 'file' | 'syslog'

const address = '127.0.0.1'

/** Reads what comes, as a syslog server would, and does nothing with it. */
const receiver = `const socket = require('node:dgram').createSocket('udp4', () => {})
socket.bind(Number(process.argv[1]), '${address}')`

/** With such a server on the target's node, where it is to log to one. */
export const withReceiver = async (
  { lane }: Order,
  to: LogTo,
  start: (syslog: Endpoint | undefined) => Promise<RunningTarget>,
): Promise<RunningTarget> => {
  if (to === 'file') return start(undefined)
  const [port = 0] = await freePorts(lane, address, 1)
  const server = new ProxyProcess(lane, [process.execPath, '-e', receiver, String(port)])
  try {
    const target = await start({ address, port })
    const stop = async (): Promise<void> => {
      await target.stop()
      await server.stop()
    }
    return { ...target, stop }
  } catch (error) {
    await server.stop()
    throw error
  }
}
