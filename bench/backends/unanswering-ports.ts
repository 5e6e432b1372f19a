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

const wanted = 32
/** Ports below 1024 stay closed: they are neither ephemeral ports nor given for port 0. */
const highest = 1023

/** Some low ports that refuse connections. Rejects when there are not enough. */
export const findClosedPorts = async (host: string): Promise<readonly number[]> => {
  const near = host === '0.0.0.0' ? '127.0.0.1' : host
  const closed: number[] = []
  for (let port = 1; port <= highest && closed.length < wanted; port += 1)
    if (await refuses(near, port)) closed.push(port)
  if (closed.length === wanted) return closed
  throw new Error(`only ${closed.length} of the ports up to ${highest} are closed`)
}

const refuses = (host: string, port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, host)
    const finish = (refused: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(refused)
    }
    const timer = setTimeout(() => finish(false), 200)
    socket.once('connect', () => finish(false))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      finish(error.code === 'ECONNREFUSED'),
    )
  })
