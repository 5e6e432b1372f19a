import { firstFew, printable, show } from '../../util/printable.ts'
import { unknownName } from '../../util/suggest.ts'
import { exampleOf, flagName, fromText, type Option } from '../options/option.ts'
import { decodeRoute, routeFaults } from './decode-route.ts'
import type { Route } from './route.ts'
import { routeOptions, routeShape } from './route-fields.ts'
import { elsewhere, type ShapeFault, shapeFaults } from './shape-faults.ts'

const form =
  'LISTEN=HOST:PORT[,HOST:PORT...][|HOST:PORT...][?OPTION=VALUE[&...]] with tcp://ADDRESS:PORT, udp://ADDRESS:PORT or unix:/PATH for LISTEN, or several with commas'
const example = 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'

const shape = /^((?:[a-z]+:\/\/|unix:)[^=?]*)=([^?]*)(?:\?(.*))?$/is

/** By what they are called in a flag, what a file calls them, and what they take. */
const optionsByFlagName = new Map(
  Object.entries<Option>(routeOptions).map(([key, { schema }]) => [
    flagName(key),
    { key, schema },
  ]),
)

/**
 * Reads a route: `tcp://127.0.0.1:15432=10.0.0.5:5432,db.example:5432|10.1.0.5:5432?affinity=3h`.
 * A bar is between tiers; options stand at the end, in kebab-case. Throws an Error that names the
 * route, each part that is wrong, and what would be right.
 */
export const parseRoute = (text: string): Route => {
  const [whole, listen = '', targets = '', query] = shape.exec(text) ?? []
  if (whole === undefined)
    throw new Error(`route ${show(text)}: is not ${form}; give one like ${example}`)
  const { options, faults } = readQuery(query)
  const tiers = targets.split('|').map(tier => tier.split(','))
  const raw = {
    listen: listen.split(/,(?=[a-z]+:\/\/|unix:)/i),
    ...(tiers.length > 1 ? { tiers } : { endpoints: tiers[0] }),
    ...options,
  }
  const all = [
    ...[...shapeFaults(routeShape, raw), ...routeFaults(raw)].map(faultText),
    ...faults,
  ]
  if (all.length > 0) throw new Error(`route ${show(text)}: ${firstFew(all)}`)
  return decodeRoute(raw, printable(text, 300))
}

/** `endpoint "a" is not HOST:PORT ...`: a flag has no names for its parts. */
const faultText = ({ path: [field = ''], message }: ShapeFault): string => {
  const part =
    field === 'endpoints' || field === 'tiers' ? 'endpoint' : flagName(String(field))
  return `${part} ${message}`
}

interface Query {
  /** As a file would have them. */
  readonly options: Readonly<Record<string, unknown>>
  readonly faults: readonly string[]
}

const readQuery = (query: string | undefined): Query => {
  const options: Record<string, unknown> = {}
  const faults: string[] = []
  for (const part of query?.split('&') ?? []) {
    const [, name = part, value] = /^([^=]*)=(.*)$/s.exec(part) ?? []
    const option = optionsByFlagName.get(name)
    const fault = (message: string): void =>
      void faults.push(`option ${show(name)} ${message}`)
    if (option === undefined)
      fault(unknownName(name, [...optionsByFlagName.keys()], elsewhere))
    else if (value === undefined)
      fault(`has no value; give one, like ${name}=${like(option)}`)
    else if (Object.hasOwn(options, option.key)) fault('is given twice; give it once')
    else options[option.key] = fromText(option.schema, value)
  }
  return { options, faults }
}

const like = ({ schema }: Pick<Option, 'schema'>): string => {
  const one = exampleOf(schema)
  return one === 'false' ? 'off' : one
}
