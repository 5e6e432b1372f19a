import type { ServicePort, Snapshot } from '../../model/snapshot.ts'
import { suggest } from '../../util/suggest.ts'
import { Refusal } from './carry-out.ts'

/** What was named. */
export interface Named {
  /** Names of ServicePorts with TCP, each once. */
  readonly names: readonly string[]
  /** What shares a name with those and has no connections. */
  readonly notes: readonly string[]
}

/** Where the routes of a sidecar are: they are called by their names alone. */
const routePrefix = 'route/'

/** A ServicePort as users call it. */
export const shortName = (name: string): string =>
  name.startsWith(routePrefix) ? name.slice(routePrefix.length) : name

/**
 * The ServicePorts that users mean by `db` (a route), `default/web` (all ports of a Service) or
 * `default/web:http` (one of them). Throws a Refusal for the first name that is wrong.
 */
export const namedServicePorts = (
  snapshots: readonly Snapshot[],
  given: readonly string[],
): Named => {
  const names = new Set<string>()
  const notes = new Set<string>()
  for (const one of given) {
    const meant = meantBy(snapshots, [one])
    const [others, tcp] = [false, true].map(isTcp =>
      meant.filter(({ protocol }) => (protocol === 'TCP') === isTcp),
    ) as [ServicePort[], ServicePort[]]
    if (tcp.length === 0) throw new Refusal(409, 'NOT_TCP', notTcpText(others))
    for (const { name } of tcp) names.add(name)
    for (const { name, protocol } of others)
      notes.add(`${shortName(name)}: ${protocol} goes on`)
  }
  return { names: [...names], notes: [...notes] }
}

const isCalled = (
  { name, namespace, serviceName }: ServicePort,
  given: string,
): boolean => [name, shortName(name), `${namespace}/${serviceName}`].includes(given)

const mostListed = 10

/** The ServicePorts of any protocol that are meant by these names. Throws a Refusal for one that is unknown. */
export const meantBy = (
  snapshots: readonly Snapshot[],
  routes: readonly string[] | undefined,
): readonly ServicePort[] => {
  const all = snapshots.flatMap(({ servicePorts }) => [...servicePorts.values()])
  if (routes === undefined) return all
  const unknown = routes.find(route => !all.some(port => isCalled(port, route)))
  if (unknown !== undefined)
    throw new Refusal(404, 'UNKNOWN_ROUTE', unknownText(unknown, all))
  return all.filter(port => routes.some(route => isCalled(port, route)))
}

/** `there is no route "bd"; did you mean db?` */
const unknownText = (given: string, all: readonly ServicePort[]): string => {
  const known = [
    ...new Set(
      all.flatMap(({ name, namespace, serviceName }) => [
        shortName(name),
        shortName(`${namespace}/${serviceName}`),
      ]),
    ),
  ]
  // Who leaves the namespace out means one of any.
  const meant = suggest(given, known) ?? known.find(name => name.endsWith(`/${given}`))
  const hint =
    meant !== undefined
      ? `did you mean ${meant}?`
      : known.length === 0
        ? 'there is none yet'
        : `there are ${known.slice(0, mostListed).join(', ')}${known.length > mostListed ? ', ...' : ''}`
  const what = all.some(({ name }) => shortName(name) === name) ? 'Service' : 'route'
  return `there is no ${what} ${JSON.stringify(given)}; ${hint}`
}

const notTcpText = ([port]: readonly ServicePort[]): string =>
  `${shortName(port?.name ?? '')} is ${port?.protocol}: only TCP connections can be made to wait`
