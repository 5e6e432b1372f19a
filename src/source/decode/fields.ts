import * as v from 'valibot'
import type { Protocol } from '../../model/service.ts'
import { isGroup, isWildcard } from '../../util/ip.ts'
import { objectIp } from './object-ip.ts'
import { show } from '../../util/printable.ts'
import { isNot, sound, wholeNumber } from '../../util/schema.ts'

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const labelText = new RegExp(`^${label}$`)
const subdomainText = new RegExp(`^${label}(\\.${label})*$`)

/** A label of RFC 1123 as Kubernetes takes it: namespaces and port names. */
export const isDnsLabel = (text: string): boolean =>
  text.length <= 63 && labelText.test(text)

/** A subdomain of RFC 1123 as Kubernetes takes it: names of objects. */
export const isDnsSubdomain = (text: string): boolean =>
  text.length <= 253 && subdomainText.test(text)

// Only checks, never transformations: valibot then goes on after the first fault, so that
// all faults of an object are reported.

export const object = <T extends v.ObjectEntries>(
  entries: T,
): v.ObjectSchema<T, (issue: v.ObjectIssue) => string> =>
  v.object(entries, (issue: v.ObjectIssue) =>
    // For a key that is not there valibot quotes its name in `expected`.
    issue.expected === 'Object' ? isNot('an object')(issue) : 'is missing',
  )

export const list = <T extends v.BaseSchema<unknown, unknown, v.BaseIssue<unknown>>>(
  item: T,
  right = 'a list',
): v.ArraySchema<T, (issue: v.ArrayIssue) => string> =>
  v.array(item, (issue: v.ArrayIssue) => isNot(right)(issue))

export const text = v.string(isNot('text'))

const checkedText = (holds: (given: string) => boolean, right: string) =>
  v.pipe(v.string(isNot(right)), v.check(holds, isNot(right)))

export const objectName = checkedText(
  isDnsSubdomain,
  'a name: lower-case letters, digits, "-" and ".", at most 253',
)
const labelRight = 'a name: lower-case letters, digits and "-", at most 63'
export const namespaceName = checkedText(
  given => given === '' || isDnsLabel(given),
  labelRight,
)
/** '' is the single unnamed port. */
export const portName = checkedText(
  given => given === '' || isDnsLabel(given),
  labelRight,
)
export const nodeName = checkedText(
  given => given === '' || isDnsSubdomain(given),
  'the name of a node',
)
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/
/** It is compared with the values of Nodes' labels, and nothing else. */
export const zoneName = checkedText(
  given => labelValue.test(given),
  'the name of a zone: letters, digits, "-", "_" and ".", at most 63',
)

export const port = wholeNumber(1, 65535, 'a port: 1 to 65535')
/** In a slice 0 is like nothing: the endpoint has no such port. */
export const slicePortNumber = wholeNumber(0, 65535, 'a port: 1 to 65535')
export const nodePort = wholeNumber(0, 65535, 'a node port: 1 to 65535, or 0 for none')
/** The API's own bounds: one second to one day. */
export const affinitySeconds = wholeNumber(
  1,
  86_400,
  'an affinity timeout: 1 to 86400 seconds',
)

const protocols = ['TCP', 'UDP', 'SCTP'] as const satisfies readonly Protocol[]

/** SCTP is for the mode to serve, or to say that it can't. */
export const protocol = v.picklist(protocols, isNot('a protocol: TCP, UDP or SCTP'))

/** Why an address can't be dialled; '' when it can. "Any" and groups can't be connected to. */
export const addressFault = (given: string): string => {
  const ip = objectIp(given)
  if (ip === undefined) return `${show(given)} is not an IP address`
  if (isWildcard(ip) || isGroup(ip))
    return `${show(given)} is not the address of one host`
  return ''
}

export const address = sound('an IP address', addressFault)

/** Canonical spelling, without those already in the list. Only for checked addresses. */
export const canonicalAll = (addresses: readonly string[]): string[] => [
  ...new Set(addresses.map(given => objectIp(given) ?? given)),
]
