import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { noHaproxy } from '../support/peers/haproxy.ts'
import { tcpBackend, type TcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import type { Usher } from '../support/usher.ts'
import type { Address } from './placed-example.ts'

export const skipPairs =
  noHaproxy || (process.platform !== 'linux' && 'needs the whole of 127.0.0.0/8')

/** A server that says its name to whoever comes, and leaves when they do. */
export const named = (
  t: Test,
  name: string,
  { host, port }: Address,
): Promise<TcpBackend> =>
  tcpBackend(
    t,
    socket => {
      socket.write(name)
      socket.on('end', () => socket.end()).resume()
    },
    host,
    port,
  )

/** What answers checks: 200 while `up`. */
export const checked = async (t: Test, { host, port }: Address, up: () => boolean) => {
  const server = createServer((_, response) => {
    response.writeHead(up() ? 200 : 503).end()
  })
  server.listen(port, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
}

export interface Session {
  /** What was heard first; '' when it ended without a word. */
  readonly word: Promise<string>
  readonly socket: Socket
  readonly ended: () => boolean
}

/** A client that stays until the test ends. */
export const session = (
  t: Test,
  { host, port }: Address,
  {
    from = '',
    opening = '',
  }: { readonly from?: string; readonly opening?: string | Buffer } = {},
): Session => {
  const socket = connect({ host, port, ...(from === '' ? {} : { localAddress: from }) })
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  if (opening.length > 0) socket.write(opening)
  const word = new Promise<string>(resolve => {
    socket.on('data', data => resolve(data.toString('latin1')))
    socket.on('close', () => resolve(''))
  })
  return { word, socket, ended: () => socket.closed || socket.readableEnded }
}

/** The first word that a client hears who then leaves, once it has left. */
export const wordOf = async (
  t: Test,
  to: Address,
  more: { readonly from?: string; readonly opening?: string | Buffer } = {},
): Promise<string> => {
  const { word, socket } = session(t, to, more)
  const heard = await word
  socket.end()
  if (!socket.closed) await once(socket, 'close')
  return heard
}

/** Until clients get to this server only; one that is not up any more would have its turn. */
export const settled = (
  t: Test,
  to: Address & { readonly name: string },
  server: string,
  opening = '',
): Promise<void> =>
  until(`${to.name}: clients get to ${server}`, async () => {
    const words = [
      await wordOf(t, to, { opening }),
      await wordOf(t, to, { opening }),
      await wordOf(t, to, { opening }),
    ]
    if (!words.every(word => word.includes(server))) await sleep(50)
    return words.every(word => word.includes(server))
  })

export const countOf = (words: readonly string[]): Readonly<Record<string, number>> =>
  Object.fromEntries(
    [...new Set(words)]
      .toSorted()
      .map(word => [word, words.filter(one => one === word).length]),
  )

/** Sessions one after the other, and how many each server got. */
export const spread = async (t: Test, to: Address, count: number) => {
  const sessions: Session[] = []
  const words: string[] = []
  for (let i = 0; i < count; i += 1) {
    const one = session(t, to)
    sessions.push(one)
    words.push(await one.word)
  }
  return { sessions, words, count: countOf(words) }
}

export const allUp = (usher: Usher): Promise<void> =>
  until('Usher has checked all', async () =>
    (await usher.status()).servicePorts.every(({ endpoints }) =>
      endpoints.every(({ check }) => check?.up === true),
    ),
  )
