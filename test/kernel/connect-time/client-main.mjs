// A program in a cgroup and a network namespace of the test's own: endpoints that say who they
// are, and clients that dial. A question and an answer are a line of JSON each.
import dgram from 'node:dgram'
import net from 'node:net'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const patienceMs = 2000

/** Both protocols on one port. */
const serve = async ({ address, port: wanted = 0 }) => {
  const tcp = net.createServer(socket => {
    socket.on('error', () => {}) // A client that has heard enough may leave by a reset.
    socket.end(`${address} sees ${socket.remoteAddress}`)
  })
  tcp.listen(wanted, address)
  await once(tcp, 'listening')
  const { port } = tcp.address()
  const udp = dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4')
  udp.on('message', (_, from) => udp.send(address, from.port, from.address))
  udp.bind(port, address)
  await once(udp, 'listening')
  return port
}

const tcp = ({ address, port }) =>
  new Promise(resolve => {
    let said = ''
    let peer = ''
    const socket = net.connect(port, address, () => {
      peer = `${socket.remoteAddress} ${socket.remotePort}`
    })
    socket.setTimeout(patienceMs, () => {
      socket.destroy()
      resolve({ error: 'silence' })
    })
    socket.on('data', data => (said += data))
    socket.on('end', () => resolve({ said, peer }))
    socket.on('error', error => resolve({ error: error.code }))
  })

const keptTcp = new Map()

/** A connection that is kept by its name; asked again, it says whether bytes still go. */
const keepTcp = async ({ address, port, name }) => {
  try {
    const known = keptTcp.get(name)
    if (known === undefined) {
      const socket = net.connect({ port, host: address, allowHalfOpen: true })
      keptTcp.set(name, socket)
      await once(socket, 'connect', { signal: AbortSignal.timeout(patienceMs) })
    } else
      await new Promise((resolve, reject) => {
        known.write('?', error => (error ? reject(error) : resolve()))
      })
    return { said: 'goes on' }
  } catch (error) {
    return { error: error.code }
  }
}

const sockets = new Map()
/** What a socket was told without being asked, by its name. */
const told = new Map()

const openUdp = async ({ address, name, localPort }) => {
  const type = address.includes(':') ? 'udp6' : 'udp4'
  const socket = dgram.createSocket({ type, reuseAddr: localPort !== undefined })
  socket.on('error', error => told.set(name, error.code))
  sockets.set(name, socket)
  if (localPort === undefined) return socket
  socket.bind(localPort)
  await once(socket, 'listening')
  return socket
}

/**
 * `name`: of a socket that is kept; `connected`: by connect, else each datagram says where to;
 * `localPort`: a port of its own, which others may have too.
 */
const udp = async ({ address, port, name, connected, localPort }) => {
  const known = sockets.get(name)
  const socket = known ?? (await openUdp({ address, name, localPort }))
  try {
    if (connected && known === undefined) {
      socket.connect(port, address)
      await once(socket, 'connect', { signal: AbortSignal.timeout(patienceMs) })
    }
    const answer = once(socket, 'message', { signal: AbortSignal.timeout(patienceMs) })
    const sent = new Promise((_, reject) => {
      const failed = error => error && reject(error)
      if (connected) socket.send('?', failed)
      else socket.send('?', port, address, failed)
    })
    const [message, from] = await Promise.race([answer, sent])
    const peer = connected ? socket.remoteAddress() : from
    return {
      said: `${message} from ${from.address} ${from.port}`,
      peer: `${peer.address} ${peer.port}`,
    }
  } catch (error) {
    const code = error.name === 'AbortError' ? 'silence' : error.code
    return { error: code, told: told.get(name) }
  }
}

/** Connects sockets of UDP, one after the other; nothing is sent. Says how many could be. */
const connectUdp = async ({ address, port, ms }) => {
  const end = performance.now() + ms
  let count = 0
  while (performance.now() < end) {
    const socket = dgram.createSocket('udp4')
    for (let i = 0; i < 100; i += 1) {
      const error = await new Promise(done => socket.connect(port, address, done))
      if (error) continue
      socket.disconnect()
      count += 1
    }
    socket.close()
  }
  return count
}

const get = async ({ url }) => {
  const response = await fetch(url, { headers: { connection: 'close' } })
  return response.text()
}

const answers = { serve, tcp, keepTcp, udp, connectUdp, get }

createInterface(process.stdin).on('line', async line => {
  const { id, question } = JSON.parse(line)
  const answer = await answers[question.do](question)
  process.stdout.write(`${JSON.stringify({ id, answer })}\n`)
})
process.stdin.on('end', () => process.exit())
