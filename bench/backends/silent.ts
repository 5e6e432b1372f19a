import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'

const mostFillers = 16
/** A loopback connection that takes longer has met a full queue. */
const connectsWithinMs = 300

/**
 * A port that takes no connection and does not refuse any, without privileges: a thread
 * listens with the smallest queue and then sleeps for ever, and the queue is filled. The
 * kernel drops further SYNs, as if the host were gone (tcp(7), listen(2)).
 */
export const keepSilentPort = async (host: string): Promise<number> => {
  const thread = new Worker(program, { eval: true, workerData: host })
  const [port] = (await once(thread, 'message')) as [number]
  // Ends with the process, however that ends.
  thread.unref()
  const near = host === '0.0.0.0' ? '127.0.0.1' : host
  for (let fillers = 0; fillers < mostFillers; fillers += 1) {
    const filler = connect(port, near)
    filler.on('error', () => undefined)
    if (!(await connects(filler))) return port
  }
  throw new Error('the queue of the silent port could not be filled')
}

const program = `
  const { parentPort, workerData } = require('node:worker_threads')
  const server = require('node:net').createServer()
  server.listen({ port: 0, host: workerData, backlog: 1 }, () => {
    parentPort.postMessage(server.address().port)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`

const connects = (socket: Socket): Promise<boolean> =>
  new Promise(resolve => {
    const timer = setTimeout(() => resolve(false), connectsWithinMs)
    socket.once('connect', () => {
      clearTimeout(timer)
      resolve(true)
    })
  })
