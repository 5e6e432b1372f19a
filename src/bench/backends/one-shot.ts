import { requestBytes } from '../load/request.ts'
import { listenTcp } from './listen.ts'

/**
 * Sends one request back and closes, as HTTP/1.0 servers do. That the server closes
 * first leaves TIME_WAIT on its side (RFC 9293, 3.6.1), so neither the client nor a
 * proxy can run out of source ports, however many connections a run makes.
 */
export const serveOneShot = (): Promise<number> =>
  listenTcp(socket => {
    let received = 0
    socket.on('data', chunk => {
      received += chunk.length
      if (received < requestBytes) socket.write(chunk)
      else socket.end(chunk)
    })
  })
