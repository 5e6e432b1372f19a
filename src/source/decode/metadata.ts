import * as v from 'valibot'
import {
  isDnsLabel,
  isDnsSubdomain,
  namespaceName,
  object,
  objectName,
  text,
  zoneName,
} from './fields.ts'
import { printable, show, peek } from '../../util/printable.ts'
import { decisive, soundParts } from './part.ts'
import type { Fault } from './problem.ts'

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

const shapeWith = <T extends v.GenericSchema>(namespace: T) =>
  object({
    metadata: object({
      name: objectName,
      namespace,
      // The labels that mean something here; the rest of an object's labels are not walked.
      labels: v.nullish(
        object({
          [labels.proxyName]: v.nullish(text),
          [labels.headless]: v.nullish(text),
          [labels.serviceName]: v.nullish(text),
          [labels.zone]: v.nullish(zoneName),
        }),
      ),
      creationTimestamp: v.nullish(
        v.custom<string | Date>(isTime, issue => `${show(issue.input)} is not a time`),
      ),
    }),
  })

const namespacedShape = shapeWith(decisive(namespaceName, ''))
const clusterShape = shapeWith(v.optional(v.unknown()))

export interface Metadata {
  readonly namespace: string
  readonly name: string
  /** The value of one of the labels that mean something here; '' where it is not sound. */
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
  /** Undefined when it has no usable name. */
  readonly metadata: Metadata | undefined
  /** `Service default/web`: the object as messages name it, safe to print. */
  readonly title: string
  /** What is left out of it, too. */
  readonly faults: readonly Fault[]
}

/** Reads name and metadata of an object. `namespaced` false is for kinds without a namespace. */
export const decodeMetadata = (
  kind: string,
  raw: unknown,
  namespaced = true,
): DecodedMetadata => {
  const title = titleOf(kind, raw, namespaced)
  const { body, faults } = namespaced
    ? soundParts(namespacedShape, raw)
    : soundParts(clusterShape, raw)
  if (body === undefined) return { metadata: undefined, title, faults }
  const { name, namespace, labels: labelled, creationTimestamp } = body.metadata
  const given = peek(raw, 'metadata')
  const annotations = peek(given, 'annotations')
  const metadata: Metadata = {
    namespace: namespaced
      ? (typeof namespace === 'string' && namespace) || 'default'
      : '',
    name,
    uid: uidOf(peek(given, 'uid')),
    // That a label is there may say all: whose value is unusable is there.
    label: key =>
      labelled?.[key] ?? (isThere(peek(peek(given, 'labels'), key)) ? '' : undefined),
    annotations,
    createdAt: creationTimestamp ? new Date(creationTimestamp).getTime() : undefined,
    deleting: isThere(peek(given, 'deletionTimestamp')),
    lastChangeTriggerTime: rfc3339(peek(annotations, triggerTime)),
  }
  return { metadata, title, faults }
}

const isThere = (given: unknown): boolean => given !== undefined && given !== null

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
