import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkFaults, decodeCheck } from '../src/health/check-option.ts'
import { HealthChecker } from '../src/health/health-checker.ts'

/**
 * What health checks cost: the processor time of this process, beside what a server of its own
 * takes, as a share of one core.
 *
 *   npx tsx bench/control-checks.ts [--endpoints 1000] [--seconds 20] [--check tcp]
 */
const { values } = parseArgs({
  options: {
    endpoints: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '20' },
    check: { type: 'string', default: 'tcp' },
  },
})
const [fault] = checkFaults(values.check)
if (fault !== undefined) throw new Error(fault.message)

const answers =
  'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n'
const server = spawn(process.execPath, [
  '-e',
  `const server = require('node:net').createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', heard => socket.end(heard[0] === 71 ? '${answers}' : '+PONG\\r\\n'))
  })
  server.listen(0, '127.0.0.1', 1024, () => console.log(server.address().port))`,
])
const [line] = (await once(server.stdout, 'data')) as [Buffer]
const port = Number(line.toString())

let turns = 0
const checker = new HealthChecker({ changed: () => (turns += 1) })
const option = decodeCheck(values.check)
const endpoint = { address: '127.0.0.1', port, host: '', ...option }
checker.set(
  Array.from({ length: Number(values.endpoints) }, (_, i) => ({
    key: `${i}`,
    ...endpoint,
  })),
)
const warmUpMs = 5000
await sleep(warmUpMs)
const before = process.cpuUsage()
const began = performance.now()
await sleep(Number(values.seconds) * 1000)
const { user, system } = process.cpuUsage(before)
const tookUs = (performance.now() - began) * 1000
await checker.close()
server.kill()
const share = (us: number): string => `${((us / tookUs) * 100).toFixed(1)} %`
console.log(
  `${values.endpoints} endpoints by ${values.check}: ${share(user + system)} of a core ` +
    `(user ${share(user)}, system ${share(system)}), ${turns} turned`,
)
