import { createSocket } from 'node:dgram'
import { connect, type Socket } from 'node:net'
import type { Destination, Outcome, Result } from './outcome.ts'

const results: Readonly<Record<string, Result>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EACCES: 'unreachable',
  EPERM: 'blocked',
}

/** One connection, or one datagram, and what comes back. */
export const dial = (to: Destination, timeoutMs: number): Promise<Outcome> =>
  to.protocol === 'TCP' ? dialTcp(to, timeoutMs) : dialUdp(to, timeoutMs)

const dialTcp = ({ address, port }: Destination, timeoutMs: number): Promise<Outcome> =>
  oneOutcome(timeoutMs, settle => {
    let text = ''
    const socket = connect({ host: address, port })
    socket.once('connect', () => socket.write('?\n'))
    socket.on('data', data => (text += data.toString()))
    socket.once('error', error => settle(resultOf(error), '', own(socket)))
    socket.once('end', () => settle(text === '' ? 'closed' : 'answer', text, own(socket)))
    return () => socket.destroy()
  })

/** As clients of UDP do, because a datagram may be lost. */
const resendMs = 1000

/**
 * The socket is connected: it hears refusals, and takes no reply from another address. A
 * process of the node is told that its own kernel dropped the datagram (EPERM) and after
 * that, if that was a refusal, by ICMP too: the second word counts.
 */
const dialUdp = ({ address, port }: Destination, timeoutMs: number): Promise<Outcome> =>
  oneOutcome(timeoutMs, (settle, otherwise) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
    const failed = (error: Error): void => {
      const result = resultOf(error)
      if (result === 'blocked') otherwise(result)
      else settle(result, '', '')
    }
    socket.on('error', failed)
    socket.once('message', data =>
      settle('answer', data.toString(), socket.address().address),
    )
    socket.connect(port, address, (error?: Error) => {
      if (error) failed(error)
      else send()
    })
    const send = (): void =>
      socket.send('?\n', sendError => void (sendError && failed(sendError)))
    const again = setInterval(send, resendMs)
    return () => {
      clearInterval(again)
      socket.close()
    }
  })

type Settle = (result: Result, text: string, ownAddress: string) => void
/** What the timeout is called. */
type Otherwise = (result: Result) => void

/** The first of what is told, or the timeout. */
const oneOutcome = (
  timeoutMs: number,
  start: (settle: Settle, otherwise: Otherwise) => () => void,
): Promise<Outcome> =>
  new Promise(resolve => {
    const began = performance.now()
    let without: Result = 'timeout'
    const first: Settle = (result, text, ownAddress) => {
      if (timer === undefined) return
      clearTimeout(timer)
      timer = undefined
      const [backend = '', seen = ''] = text.trim().split(' ')
      const ms = Math.round(performance.now() - began)
      resolve({ result, backend, seen, own: ownAddress, ms })
      setImmediate(stop)
    }
    let timer: NodeJS.Timeout | undefined = setTimeout(
      () => first(without, '', ''),
      timeoutMs,
    )
    const stop = start(first, result => (without = result))
  })

const own = (socket: Socket): string => socket.localAddress ?? ''

const resultOf = (error: NodeJS.ErrnoException): Result => {
  const result = results[error.code ?? '']
  if (result === undefined) throw error
  return result
}
