import * as v from 'valibot'
import type { Node } from '../../model/service.ts'
import { decodeObject, type Kind } from './decode-object.ts'
import type { Decoded } from './decoded.ts'
import { zoneName } from './endpoint-slice.ts'
import { addressFault, canonicalAll, list, object, text } from './fields.ts'
import { labels } from './metadata.ts'

const shape = object({
  status: v.nullish(
    object({ addresses: v.nullish(list(object({ type: text, address: text }))) }),
  ),
})

type Address = { readonly type: string; readonly address: string }

const wantedTypes = ['InternalIP', 'ExternalIP']

const kind: Kind<typeof shape, Node> = {
  kind: 'Node',
  namespaced: false,
  ignored: () => '',
  shape,
  faults: ({ status }) =>
    (status?.addresses ?? []).flatMap(({ type, address }, i) => {
      const message = wantedTypes.includes(type) ? addressFault(address) : ''
      return message === '' ? [] : [{ field: `status.addresses[${i}].address`, message }]
    }),
  build: ({ status }, metadata) => ({
    name: metadata.name,
    zone: zoneName(metadata.label(labels.zone)),
    addresses: canonicalAll(
      wantedTypes.flatMap(wanted => ofType(status?.addresses ?? [], wanted)),
    ),
    podCIDRs: [],
    leaving: false,
  }),
}

/** A v1 Node: its zone and the addresses by which it is reached. */
export const decodeNode = (raw: unknown): Decoded<Node> => decodeObject(kind, raw)

const ofType = (addresses: readonly Address[], wanted: string): string[] =>
  addresses.filter(({ type }) => type === wanted).map(({ address }) => address)
