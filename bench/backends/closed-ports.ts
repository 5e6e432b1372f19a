import { connect } from 'node:net'

const wanted = 32
/** Ports below 1024 stay closed: nobody is given them for a connection or by port 0. */
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
