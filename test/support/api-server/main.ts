import { answerParent } from '../../../bench/process/child.ts'
import { type Churn, startChurn, unixNow } from './churn.ts'
import type { Command } from './commands.ts'
import { type SeedOptions, seedObjects } from './seed.ts'
import { ApiServer } from './server.ts'

/**
 * The API server as a process of its own, so that its work is not measured with that of
 * who asks it. Answers `Command`s over IPC; started by hand it says where it is.
 */
const server = await ApiServer.start({ bookmarkEveryMs: 10_000 })
let seeded: SeedOptions = { services: 0, endpointsPerSlice: 0 }
let churn: Churn | undefined

const carryOut = (command: Command): unknown => {
  switch (command.do) {
    case 'access':
      return { url: server.url, kubeconfig: server.kubeconfig({ user: command.user }) }
    case 'seed':
      seeded = command
      for (const object of seedObjects(seeded)) server.apply(object)
      return server.version
    case 'apply': {
      const at = unixNow()
      server.apply(command.object)
      return at
    }
    case 'start-churn':
      churn?.stop()
      churn = startChurn(seeded, command.perSecond, object => server.apply(object))
      return true
    case 'stop-churn':
      return churn?.stop() ?? []
    case 'behave':
      return Object.assign(server.behaviour, command.behaviour) && true
    case 'fault':
      return server.faults.add(command.fault, command.scope) && true
    case 'disturb':
      return server.disturb(command.how, command.resource)
    case 'requests': {
      const { all } = server.requests
      return { count: all.length, peakPerSecond: server.requests.peakPerSecond() }
    }
    default:
      throw new Error(`unknown command ${JSON.stringify(command satisfies never)}`)
  }
}

// The files it wrote go with it, whichever way it ends.
process.on('exit', () => server.close())
process.once('SIGTERM', () => process.exit(0))
if (process.send === undefined) {
  process.once('SIGINT', () => process.exit(0))
  const [, , services = '100', endpointsPerSlice = '10'] = process.argv
  const seed = {
    do: 'seed',
    services: Number(services),
    endpointsPerSlice: Number(endpointsPerSlice),
  } as const
  carryOut(seed)
  console.log(`${server.url}\nexport KUBECONFIG=${server.kubeconfig()}`)
} else answerParent(question => Promise.resolve(carryOut(question as Command)))
