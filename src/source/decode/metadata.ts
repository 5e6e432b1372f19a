import * as v from 'valibot'
import {
  isDnsLabel,
  isDnsSubdomain,
  namespaceName,
  object,
  objectName,
  text,
} from './fields.ts'
import { peek } from '../../util/json.ts'
import { printable, show } from '../../util/printable.ts'
import { faultOf, type Fault } from './problem.ts'

export const labels = {
  /** Says that some other proxy serves this Service. */
  proxyName: 'service.kubernetes.io/service-proxy-name',
  headless: 'service.kubernetes.io/headless',
  serviceName: 'kubernetes.io/service-name',
  zone: 'topology.kubernetes.io/zone',
} as const

type Label = (typeof labels)[keyof typeof labels]

const triggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'

const isTime = (given: unknown): given is string | Date =>
  (typeof given === 'string' || given instanceof Date) &&
  Number.isFinite(new Date(given).getTime())

const shape = object({
  metadata: object({
    name: objectName,
    namespace: v.nullish(namespaceName),
    // The labels that mean something here; the rest of an object's labels are not walked.
    labels: v.nullish(
      object({
        [labels.proxyName]: v.nullish(text),
        [labels.headless]: v.nullish(text),
        [labels.serviceName]: v.nullish(text),
        [labels.zone]: v.nullish(text),
      }),
    ),
    creationTimestamp: v.nullish(
      v.custom<string | Date>(isTime, issue => `${show(issue.input)} is not a time`),
    ),
  }),
})

export interface Metadata {
  readonly namespace: string
  readonly name: string
  /** The value of one of the labels that mean something here. */
  readonly label: (key: Label) => string | undefined
  /** '' where there is none. */
  readonly uid: string
  /** As they were given, whatever they are. */
  readonly annotations: unknown
  /** Milliseconds since 1970. */
  readonly createdAt: number | undefined
  /** Its deletion was asked for, and something is still to be done before. */
  readonly deleting: boolean
  /**
   * Epoch milliseconds of when that happened which a slice reports; 0 when it does not
   * say. It is only measured with, so that one that makes no sense is as good as none.
   */
  readonly lastChangeTriggerTime: number
}

export interface DecodedMetadata {
  /** Undefined when there are faults. */
  readonly metadata: Metadata | undefined
  /** `Service default/web`: the object as messages name it, safe to print. */
  readonly title: string
  readonly faults: readonly Fault[]
}

/** Reads name and metadata of an object. `namespaced` false is for kinds without a namespace. */
export const decodeMetadata = (
  kind: string,
  raw: unknown,
  namespaced = true,
): DecodedMetadata => {
  const title = titleOf(kind, raw, namespaced)
  const parsed = v.safeParse(shape, raw)
  if (!parsed.success)
    return { metadata: undefined, title, faults: parsed.issues.map(faultOf) }
  const { name, namespace, labels: labelled, creationTimestamp } = parsed.output.metadata
  const given = peek(raw, 'metadata')
  const annotations = peek(given, 'annotations')
  const metadata: Metadata = {
    namespace: namespaced ? namespace || 'default' : '',
    name,
    uid: uidOf(peek(given, 'uid')),
    label: key => labelled?.[key] ?? undefined,
    annotations,
    createdAt: creationTimestamp ? new Date(creationTimestamp).getTime() : undefined,
    deleting: (peek(given, 'deletionTimestamp') ?? undefined) !== undefined,
    lastChangeTriggerTime: rfc3339(peek(annotations, triggerTime)),
  }
  return { metadata, title, faults: [] }
}

/** Of any form; the API server's have 36 characters. */
const uidOf = (given: unknown): string =>
  typeof given === 'string' && given.length <= 100 ? given : ''

const rfc3339Text = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

/** To the millisecond; 0 for what is not a time since 1970. */
const rfc3339 = (given: unknown): number =>
  typeof given === 'string' && rfc3339Text.test(given)
    ? Math.max(0, Date.parse(given) || 0)
    : 0

const titleOf = (kind: string, raw: unknown, namespaced: boolean): string => {
  const metadata = peek(raw, 'metadata')
  const name = safeName(peek(metadata, 'name'), isDnsSubdomain)
  const namespace = safeName(peek(metadata, 'namespace') || 'default', isDnsLabel)
  return `${printable(kind)} ${namespaced ? `${namespace}/` : ''}${name}`
}

const safeName = (given: unknown, holds: (name: string) => boolean): string =>
  typeof given === 'string' && holds(given)
    ? given
    : given === undefined || given === null
      ? '(no name)'
      : show(given)
