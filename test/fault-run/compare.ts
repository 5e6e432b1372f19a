import type { ServicePortStatus, StatusDocument } from '../../src/observe/status.ts'
import { isUnsettled, keyOf, type Held, type View, type Wanted } from './oracle.ts'
import { isBroken, labelOf, labels } from './raw.ts'

/** What of `/status` differs from what the server holds, in words; empty when nothing. */
export const differences = (
  status: StatusDocument,
  want: readonly Wanted[],
  held: Held,
): string[] => {
  const found: string[] = []
  const served = new Map(status.servicePorts.map(each => [keyOf(each), each]))
  for (const { key, view } of want) {
    const now = served.get(key)
    if (now === undefined) found.push(`${key} is not served`)
    else if (textOf(viewOf(now)) !== textOf(view))
      found.push(`${key} is ${textOf(viewOf(now))}, and should be ${textOf(view)}`)
  }
  const wantedKeys = new Set(want.map(({ key }) => key))
  for (const [key, { servicePort }] of served) {
    const name = servicePort.split(/[/:]/)[1] ?? ''
    if (!wantedKeys.has(key) && !isUnsettled(name, held))
      found.push(`${key} is served, and should not be`)
  }
  return [...found, ...aboutNode(status, held), ...aboutProblems(status, held)]
}

const viewOf = (now: ServicePortStatus): View => ({
  affinityMs: now.affinityMs,
  verdicts: now.verdicts,
  sourceRanges: now.sourceRanges,
  vips: now.vips.map(({ kind, vip }) => `${kind} ${vip}`).toSorted(),
  endpoints: now.endpoints
    .map(({ endpoint, state, clients }) => `${endpoint} ${state} ${clients}`)
    .toSorted(),
})

const textOf = ({ affinityMs, verdicts, sourceRanges, vips, endpoints }: View): string =>
  JSON.stringify({
    affinityMs,
    verdicts: [verdicts.internal, verdicts.external, verdicts.node],
    sourceRanges,
    vips,
    endpoints,
  })

const aboutNode = ({ node }: StatusDocument, { place }: Held): string[] =>
  node?.zone === place.zone
    ? []
    : [`the Node's zone is '${node?.zone ?? ''}', and should be '${place.zone}'`]

/** Each broken object, and a Node that is not there, but nothing else is told as a problem. */
const aboutProblems = ({ problems }: StatusDocument, held: Held): string[] => {
  const told = new Set(problems.map(({ object }) => object))
  const broken = new Set(
    [...held.services, ...held.endpoints]
      .filter(
        object =>
          isBroken(object) &&
          labelOf(object, labels.proxyName) === undefined &&
          labelOf(object, labels.headless) === undefined,
      )
      .map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`),
  )
  if (held.place.isGone) broken.add(`Node ${held.place.nodeName}`)
  return [
    ...[...broken]
      .filter(title => !told.has(title))
      .map(title => `nothing is said of the broken ${title}`),
    ...[...told]
      .filter(title => !broken.has(title))
      .map(title => `a problem of ${title} is told, and there is none`),
  ]
}
