import * as v from 'valibot'
import type { Node } from '../../model/service.ts'
import { decoderOf } from './decode-object.ts'
import { canonicalCidrs, cidrFaults, familyFaults } from './object-ip.ts'
import { addressFault, canonicalAll, object, text } from './fields.ts'
import { labels, type Metadata } from './metadata.ts'
import { parts, present } from './part.ts'
import { faultIf } from './problem.ts'
import { parseCidr } from '../../util/cidr.ts'

/** Set by the cluster autoscaler before it takes the node away (KEP-3836). */
const leavingTaint = 'ToBeDeletedByClusterAutoscaler'

const shape = object({
  spec: v.nullish(
    object({
      podCIDR: v.nullish(v.unknown()),
      podCIDRs: v.nullish(parts(v.unknown())),
      taints: v.nullish(parts(object({ key: text }))),
    }),
  ),
  status: v.nullish(
    object({ addresses: v.nullish(parts(object({ type: text, address: text }))) }),
  ),
})

type Body = v.InferOutput<typeof shape>
type Address = { readonly type: string; readonly address: string }

const wantedTypes = ['InternalIP', 'ExternalIP']

/** A v1 Node: where it is, the addresses of it and its pods, and whether it is to go. */
export const decodeNode = decoderOf({
  kind: 'Node',
  namespaced: false,
  shape,
  faults: ({ status }) =>
    (status?.addresses ?? []).flatMap((one, i) => {
      const isWanted = one !== undefined && wantedTypes.includes(one.type)
      const message = isWanted ? addressFault(one.address) : ''
      return faultIf(`status.addresses[${i}].address`, message)
    }),
  leftOut: ({ spec }) => cidrFaults('spec.podCIDRs', podCIDRsOf(spec)),
  changes: (body, metadata) => [
    { kind: 'Node', name: metadata.name, object: nodeOf(body, metadata) },
  ],
})

const nodeOf = ({ spec, status }: Body, metadata: Metadata): Node => ({
  name: metadata.name,
  zone: metadata.label(labels.zone) ?? '',
  addresses: canonicalAll(
    wantedTypes.flatMap(wanted => ofType(present(status?.addresses), wanted)),
  ),
  podCIDRs: canonicalCidrs(podCIDRsOf(spec)),
  leaving:
    metadata.deleting || present(spec?.taints).some(({ key }) => key === leavingTaint),
})

/** What kube-proxy 1.1 to 1.5 read at its start, the first before the second. */
const modeAnnotations = [
  'net.beta.kubernetes.io/proxy-mode',
  'net.experimental.kubernetes.io/proxy-mode',
]

export interface ModeAnnotation {
  /** Of the annotation. */
  readonly name: string
  /** As it was written, whatever it is. */
  readonly value: string
}

/** Which proxy mode the Node of a v1 NodeList asks for; undefined when it does not. */
export const modeAnnotation = (raw: unknown): ModeAnnotation | undefined => {
  const parsed = v.safeParse(annotated, raw)
  const annotations = parsed.success
    ? parsed.output.items[0]?.metadata.annotations
    : undefined
  for (const name of modeAnnotations) {
    const value = annotations?.[name]
    if (value !== undefined && value !== '') return { name, value }
  }
  return undefined
}

const annotated = v.object({
  items: v.array(
    v.object({
      metadata: v.object({ annotations: v.nullish(v.record(v.string(), v.string())) }),
    }),
  ),
})

/** The older spec.podCIDR repeats the first of them. */
const podCIDRsOf = (spec: Body['spec']): readonly unknown[] => {
  const { podCIDR, podCIDRs } = spec ?? {}
  if (podCIDRs && podCIDRs.length > 0) return podCIDRs
  return podCIDR ? [podCIDR] : []
}

const ofType = (addresses: readonly Address[], wanted: string): string[] =>
  addresses.filter(({ type }) => type === wanted).map(({ address }) => address)

const cidrsField = 'spec.cidrs'

const cidrShape = object({ spec: object({ cidrs: parts(v.unknown()) }) })

/** A networking.k8s.io/v1 ServiceCIDR, or one of v1beta1, which looks the same (KEP-1880). */
export const decodeServiceCIDR = decoderOf({
  kind: 'ServiceCIDR',
  namespaced: false,
  shape: cidrShape,
  faults: ({ spec: { cidrs } }) => [
    ...cidrFaults(cidrsField, cidrs),
    ...familyFaults(cidrsField, cidrs.map(familyIn), 'CIDR'),
  ],
  unread: ({ spec: { cidrs } }) => canonicalCidrs(cidrs).length === 0,
  changes: ({ spec: { cidrs } }, { name }) => [
    { kind: 'ServiceCIDR', name, object: { name, cidrs: canonicalCidrs(cidrs) } },
  ],
})

const familyIn = (cidr: unknown) => parseCidr(canonicalCidrs([cidr])[0] ?? '')?.family
