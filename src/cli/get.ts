import type { OptionsOf } from '../config/options.ts'
import { listedKindsText } from '../config/options/control.ts'
import { UsageError } from '../config/usage-error.ts'
import {
  endpointsShape,
  type ListedPort,
  listedShape,
  type StatusOf,
} from '../observe/status.ts'
import { suggest } from '../util/suggest.ts'
import { UsherError } from '../util/usher-error.ts'
import { askCommand, askPorts, orSayWhyNot } from './ask-usher.ts'
import {
  isInNamespace,
  type Kind,
  kindNames,
  type Listing,
  listings,
  routeName,
  whyNothingYet,
} from './listings.ts'
import { printListing, watchListing } from './get-output.ts'
import type { Io } from './io.ts'
import { count, visible } from './words.ts'

type Options = OptionsOf<'get'>

/** `usher get`: 0, 1 when there is nothing of a name, or nothing yet, 3 with the reason when there is no answer. */
export const get = (options: Options, io: Io): Promise<number> => {
  const { kind, names } = wantedOf(options)
  const said = new Set<string>()
  const note = (text: string): void => {
    if (!said.has(text)) io.err(`usher get: ${visible(text)}\n`)
    said.add(text)
  }
  const list = (): Promise<Listing> =>
    kind === 'connections'
      ? connections(names, options, note)
      : served(kind, names, options)
  return orSayWhyNot('get', io, async () => {
    if (options.watch) {
      await watchListing(list, options, io)
      return 0
    }
    const listing = await list()
    await printListing(listing, options, io)
    if (listing.left > 0)
      note(
        `${count(listing.left, 'connection')} more are left out; a name lists those of one Service or route`,
      )
    return 0
  })
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
    const hint =
      meant === undefined ? `give ${listedKindsText}` : `did you mean ${meant}?`
    throw new UsageError(`${JSON.stringify(word)} is no kind; ${hint}`, 'get')
  }
  const name = rest.length === 0 ? [] : [rest.join('/')]
  return { kind, names: [...name, ...more, ...route] }
}

const served = async (
  kind: Exclude<Kind, 'connections'>,
  names: readonly string[],
  options: Options,
): Promise<Listing> =>
  kind === 'endpoints'
    ? chosen(await askPorts(options, endpointsShape), listings[kind], names, options)
    : chosen(await askPorts(options, listedShape), listings[kind], names, options)

/** Of what is served what was asked for. */
const chosen = <P extends Named>(
  status: StatusOf<P>,
  list: (ports: readonly P[]) => Listing,
  names: readonly string[],
  options: Options,
): Listing => {
  const why = whyNothingYet(status)
  // Who watches waits for what comes.
  if (why !== '' && !options.watch) throw new UsherError('NOT_FOUND', why)
  const { servicePorts } = status
  const { namespace } = options
  const ports = servicePorts.filter(port => isInNamespace(port.servicePort, namespace))
  const all = list(ports)
  if (names.length === 0) return all
  const called = ports.filter(port => names.some(name => isCalled(port, name)))
  const others = names.filter(name => !ports.some(port => isCalled(port, name)))
  const alone = all.items.filter(({ name }) => others.includes(name))
  const unknown = others.find(name => !alone.some(one => one.name === name))
  if (unknown !== undefined) throw notFound(unknown, ports)
  return { ...all, items: [...list(called).items, ...alone] }
}

const connections = async (
  names: readonly string[],
  options: Options,
  note: (text: string) => void,
): Promise<Listing> => {
  const request = names.length === 0 ? {} : { routes: names }
  const answer = await askCommand(options, 'connections', request)
  const { connections: all, left, notes } = answer
  for (const text of notes) note(text)
  const { namespace } = options
  return listings.connections(
    all.filter(({ route }) => isInNamespace(route, namespace)),
    left,
  )
}

type Named = Pick<ListedPort, 'servicePort'>

const isCalled = ({ servicePort }: Named, given: string): boolean =>
  servicePort === given || isNamed(routeName(servicePort), given)

/** As orders name them: see `namedServicePorts`. */
const isNamed = (route: string, given: string): boolean =>
  route === given || withoutPort(route) === given

const notFound = (given: string, ports: readonly Named[]): UsherError => {
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
