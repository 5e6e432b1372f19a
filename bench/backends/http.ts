import type { Socket } from 'node:net'
import { listenTcp } from './listen.ts'

const headEnd = '\r\n\r\n'
/** No request for `/64` has a longer head. */
const longestHead = 16 * 1024

/**
 * As little of HTTP/1.1 (RFC 9112) as generators need, for where there is no nginx: GET,
 * kept connections, pipelining, `Connection: close`. A body that a request announces
 * would be taken for the next one.
 */
export const serveHttp = (host: string): Promise<number> => listenTcp(host, answerHttp)

/** The same on one connection. */
export const answerHttp = (socket: Socket): void => {
  let rest = ''
  socket.on('data', chunk => {
    // Latin-1 has a character for every byte, and is the fastest to make.
    const heads = (rest + chunk.toString('latin1')).split(headEnd)
    rest = heads.pop() ?? ''
    if (rest.length > longestHead) socket.destroy()
    heads.every(head => answer(socket, head))
  })
}

/** False when nothing after this request is to be answered. */
const answer = (socket: Socket, head: string): boolean => {
  const [, path = '', version] = /^GET (\S+) HTTP\/1\.([01])\r?\n?/.exec(head) ?? []
  const { keep, close } = responses.get(path) ?? notFound
  if (version === '1' && !/^connection:[ \t]*close/im.test(head))
    return socket.write(keep) || true
  socket.end(close)
  return false
}

interface Response {
  readonly keep: Buffer
  readonly close: Buffer
}

const response = (status: string, bytes: number): Response => {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${bytes}\r\n`
  const body = 'u'.repeat(bytes)
  return {
    keep: Buffer.from(`${head}\r\n${body}`),
    close: Buffer.from(`${head}Connection: close\r\n\r\n${body}`),
  }
}

const notFound = response('404 Not Found', 0)
const responses: ReadonlyMap<string, Response> = new Map([
  ['/64', response('200 OK', 64)],
  ['/16384', response('200 OK', 16_384)],
])
