// Dials addresses all the time, so many at once, until its input ends; then it says how each
// connect went: when it began and ended (ms of the monotonic clock, which all processes share), and
// who answered or what went wrong.
import net from 'node:net'

const [atOnce, ...addresses] = process.argv.slice(2)
const patienceMs = 5000
const now = () => Number(process.hrtime.bigint()) / 1e6

const connects = []
const over = new AbortController()

const dial = (address, port) =>
  new Promise(resolve => {
    let said = ''
    const began = now()
    const socket = net.connect(port, address)
    const done = who => {
      connects.push([began, now(), who])
      // By a reset, so that no port waits.
      socket.resetAndDestroy()
      resolve()
    }
    socket.setTimeout(patienceMs, () => done('silence'))
    socket.on('error', error => done(error.code))
    socket.on('data', data => {
      said += data
      if (said.includes(' ')) done(said.split(' ')[0])
    })
    socket.on('end', () => done('nothing said'))
  })

const dialAll = async first => {
  for (let i = first; !over.signal.aborted; i += 1) {
    const [address, port] = addresses[i % addresses.length].split(' ')
    await dial(address, Number(port))
  }
}

process.stdin.on('end', () => over.abort()).resume()
process.stdout.write('ready\n')
await Promise.all(Array.from({ length: Number(atOnce) }, (_, i) => dialAll(i)))
process.stdout.write(JSON.stringify(connects))
