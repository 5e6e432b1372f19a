import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { answerLoad } from '../../../bench/load/answer.ts'
import type { LoadAnswer, Traffic } from '../../../bench/load/question.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

interface Teardown {
  teardown(end: () => void): void
}

/** A server that is told of every connection; ended with the test. */
export const serve = async (
  t: Teardown,
  onSocket: (socket: Socket) => void,
): Promise<Endpoint> => {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    onSocket(socket)
  }).listen(0, testHost, 1024)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { address: testHost, port: (server.address() as AddressInfo).port }
}

export const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello'

export interface Asked {
  requests: number
  connections: number
}

/** Answers each request with what `answer` gives, and closes when it is asked to. */
export const serveHttp = async (
  t: Teardown,
  answer: (nth: number, socket: Socket) => string | undefined = () => ok,
): Promise<{ readonly to: Endpoint; readonly asked: Asked }> => {
  const asked: Asked = { requests: 0, connections: 0 }
  const to = await serve(t, socket => {
    asked.connections += 1
    let text = ''
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      if (!text.endsWith('\r\n\r\n')) return
      const closes = text.includes('Connection: close')
      text = ''
      asked.requests += 1
      const response = answer(asked.requests, socket)
      if (response === undefined) return
      // Who closes says so (RFC 9112, 9.6): wrk believes nothing else.
      if (closes) socket.end(response.replace('\r\n', '\r\nConnection: close\r\n'))
      else socket.write(response)
    })
  })
  return { to, asked }
}

/** For servers that keep their end, and for several at a time. */
export const askUnchecked = (traffic: Traffic, seconds: number): Promise<LoadAnswer> =>
  answerLoad({ ...traffic, seconds, pids: { backend: [], proxy: [] } })

/** Asks, and fails when anything of it is left when the answer is there. */
export const ask = async (traffic: Traffic, seconds = 0.3): Promise<LoadAnswer> => {
  const before = resources()
  const answer = await askUnchecked(traffic, seconds)
  await until(
    `only ${before} left: ${resources()}`,
    () => resources().length <= before.length,
  )
  return answer
}

/** Sockets, timers, threads and children of this process, without what Node keeps itself. */
const resources = (): string =>
  process
    .getActiveResourcesInfo()
    .filter(name => !name.startsWith('FSReq') && name !== 'Immediate')
    .toSorted()
    .join()

/** Milliseconds that it took, with what it resolved with. */
export const timed = async <T>(work: Promise<T>): Promise<[T, number]> => {
  const started = performance.now()
  return [await work, performance.now() - started]
}
