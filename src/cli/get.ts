import { stringify } from 'yaml'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import type { ServicePortStatus } from '../observe/status.ts'
import { suggest } from '../util/suggest.ts'
import { aligned, type Cells, columnWidths } from './columns.ts'
import { tell, tellStatus } from './control-client.ts'
import { routesOf } from './drain.ts'
import {
  connectionRow,
  connectionsTable,
  endpointItems,
  endpointRow,
  endpointsTable,
  type Listing,
  routeItem,
  routeName,
  routeRow,
  routesTable,
} from './get-items.ts'
import type { Io } from './io.ts'
import { count, visible } from './words.ts'

/** Of what `-o json` and `-o yaml` print. */
const apiVersion = 'usher-proxy.io/v1alpha1'

type Options = OptionsOf<'get'>

/** `usher get`: 0, or 1 with the reason when there is no answer, or no such route. */
export const get = (options: Options, io: Io): Promise<number> => {
  const { kind, route, controlSocket: path } = options
  const [what, more] = kind
  if (more !== undefined) throw new UsageError('one kind at a time is listed', 'get')
  const told = { command: 'get', path } as const
  if (what === 'connections')
    return tell(told, 'connections', routesOf(route), io, ({ connections, left }) => {
      const rows = (_now: number, wide: boolean) =>
        connections.map(one => connectionRow(one, wide))
      const items = connections.map(({ id: name, ...rest }) => ({ name, ...rest }))
      print(
        { kind: 'ConnectionList', items, left, table: connectionsTable, rows },
        options,
        io,
      )
      if (left > 0)
        io.err(
          `usher get: ${count(left, 'connection')} more are left out; --route NAME lists those of one\n`,
        )
      return 0
    })
  return tellStatus(told, io, ({ servicePorts }) => {
    const wrong = unknownRoute(servicePorts, route)
    if (wrong !== '') {
      io.err(`usher get: ${visible(wrong)}\n`)
      return 1
    }
    const meant = servicePorts.filter(
      port => route.length === 0 || route.some(name => isCalled(port, name)),
    )
    print(
      what === 'routes' ? routesOfStatus(meant) : endpointsOfStatus(meant),
      options,
      io,
    )
    return 0
  })
}

const routesOfStatus = (ports: readonly ServicePortStatus[]): Listing => {
  const items = ports.map(routeItem)
  const rows = (now: number, wide: boolean) => items.map(one => routeRow(one, now, wide))
  return { kind: 'RouteList', items, left: 0, table: routesTable, rows }
}

const endpointsOfStatus = (ports: readonly ServicePortStatus[]): Listing => {
  const items = ports.flatMap(endpointItems)
  const rows = (now: number, wide: boolean) =>
    items.map(one => endpointRow(one, now, wide))
  return { kind: 'EndpointList', items, left: 0, table: endpointsTable, rows }
}

const print = (listing: Listing, { output }: Options, io: Io): void => {
  const { kind, items, left, table, rows } = listing
  const document = { apiVersion, kind, metadata: { leftOut: left }, items }
  if (output === 'json') return io.out(`${JSON.stringify(document, null, 2)}\n`)
  if (output === 'yaml') return io.out(stringify(document))
  const isWide = output === 'wide'
  if (items.length === 0) return io.err('usher get: there are none\n')
  const columns = isWide ? table : table.filter(column => !column.endsWith('+'))
  const head: Cells = columns.map(column => column.replace('+', ''))
  const lines = [head, ...rows(Date.now(), isWide)]
  const widths = columnWidths(lines)
  for (const line of lines) io.out(`${aligned(line, widths, '', io.colour)}\n`)
}

/** As orders name them: see `namedServicePorts`. */
const isCalled = ({ servicePort }: ServicePortStatus, given: string): boolean =>
  namesOf(servicePort).includes(given)

const namesOf = (name: string): readonly string[] => [
  name,
  routeName(name),
  name.replace(/:[^/]*$/, ''),
]

const unknownRoute = (
  ports: readonly ServicePortStatus[],
  routes: readonly string[],
): string => {
  const unknown = routes.find(route => !ports.some(port => isCalled(port, route)))
  if (unknown === undefined) return ''
  const known = ports.map(({ servicePort }) => routeName(servicePort))
  const meant = suggest(unknown, known)
  const hint =
    meant === undefined ? 'usher get routes lists them' : `did you mean ${meant}?`
  return `there is no route ${JSON.stringify(unknown)}; ${hint}`
}
