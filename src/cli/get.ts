import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { controlCommands } from '../observe/control-protocol.ts'
import type { ServicePortStatus } from '../observe/status.ts'
import { suggest } from '../util/suggest.ts'
import { hasCode, UsherError } from '../util/usher-error.ts'
import { askAdmin } from './admin-client.ts'
import { answerMs, askStatus } from './ask-status.ts'
import { askControl } from './control-client.ts'
import { type Kind, kindNames, listings, type Listing } from './get-kinds.ts'
import { isInNamespace, routeName } from './get-items.ts'
import { printListing, watchListing } from './get-output.ts'
import type { Io } from './io.ts'
import { count, visible } from './words.ts'

type Options = OptionsOf<'get'>

/** `usher get`: 0, or 1 with the reason when there is no answer, or nothing of a name. */
export const get = async (options: Options, io: Io): Promise<number> => {
  const { kind, names } = wantedOf(options)
  const list = (): Promise<Listing> =>
    kind === 'connections' ? connections(names, options) : served(kind, names, options)
  try {
    if (options.watch) return await watchListing(list, options, io)
    const listing = await list()
    printListing(listing, options, io)
    if (listing.left > 0)
      io.err(
        `usher get: ${count(listing.left, 'connection')} more are left out; a name lists those of one Service or route\n`,
      )
    return 0
  } catch (error) {
    if (!hasCode(error, 'NO_STATUS', 'ORDER_REFUSED', 'NOT_FOUND')) throw error
    io.err(`usher get: ${visible(error.message)}\n`)
    return 1
  }
}

/** `svc`, `services default/web`, `service/default/web`. */
const wantedOf = ({
  kind: [first = '', ...more],
  route,
}: Options): { readonly kind: Kind; readonly names: readonly string[] } => {
  const [word = '', ...rest] = first.split('/')
  const kind = kindNames.get(word)
  if (kind === undefined) {
    const meant = suggest(word, [...kindNames.keys()])
    const hint = meant === undefined ? `give ${kinds}` : `did you mean ${meant}?`
    throw new UsageError(`${JSON.stringify(word)} is no kind; ${hint}`, 'get')
  }
  const name = rest.length === 0 ? [] : [rest.join('/')]
  return { kind, names: [...name, ...more, ...route] }
}

const kinds = 'services, endpoints, connections, listeners or routes'
const served = async (
  kind: Exclude<Kind, 'connections'>,
  names: readonly string[],
  options: Options,
): Promise<Listing> => {
  const { servicePorts } = await askStatus(options)
  const { namespace } = options
  const ports = servicePorts.filter(port => isInNamespace(port.servicePort, namespace))
  const all = listings[kind](ports)
  if (names.length === 0) return all
  const called = ports.filter(port => names.some(name => isCalled(port, name)))
  const others = names.filter(name => !ports.some(port => isCalled(port, name)))
  const alone = all.items.filter(({ name }) => others.includes(name))
  const unknown = others.find(name => !alone.some(one => one.name === name))
  if (unknown !== undefined) throw notFound(unknown, ports)
  return { ...all, items: [...listings[kind](called).items, ...alone] }
}

const connections = async (
  names: readonly string[],
  options: Options,
): Promise<Listing> => {
  const { controlSocket, address, namespace } = options
  const request = names.length === 0 ? {} : { routes: names }
  if (controlSocket !== '') {
    const answer = await askControl(controlSocket, 'connections', request)
    return listings.connections(ofNamespace(answer.connections, namespace), answer.left)
  }
  if (names.length > 0) {
    const { servicePorts } = await askStatus(options)
    const unknown = names.find(name => !servicePorts.some(port => isCalled(port, name)))
    if (unknown !== undefined) throw notFound(unknown, servicePorts)
  }
  const { answer: schema } = controlCommands.connections
  const { document } = await askAdmin(address, '/connections', schema, answerMs)
  const found = document.connections.filter(
    ({ route }) => names.length === 0 || names.some(name => isNamed(route, name)),
  )
  return listings.connections(ofNamespace(found, namespace), document.left)
}

const ofNamespace = <T extends { readonly route: string }>(
  all: readonly T[],
  namespace: string,
): readonly T[] => all.filter(({ route }) => isInNamespace(route, namespace))

const isCalled = ({ servicePort }: ServicePortStatus, given: string): boolean =>
  servicePort === given || isNamed(routeName(servicePort), given)

/** As orders name them: see `namedServicePorts`. */
const isNamed = (route: string, given: string): boolean =>
  route === given || withoutPort(route) === given

const notFound = (given: string, ports: readonly ServicePortStatus[]): UsherError => {
  const full = ports.map(({ servicePort }) => routeName(servicePort))
  const known = [...new Set(full.flatMap(name => [withoutPort(name), name]))]
  // Who leaves the namespace out means one of any.
  const meant =
    suggest(given, known) ?? known.find(name => name.replace(/^[^/]*\//, '') === given)
  const hint =
    meant === undefined ? 'usher get services lists them' : `did you mean ${meant}?`
  return new UsherError(
    'NOT_FOUND',
    `there is no Service or route ${JSON.stringify(given)}; ${hint}`,
  )
}

const withoutPort = (route: string): string => route.replace(/:[^/]*$/, '')
