/** An object of the Kubernetes API as it is on the wire: raw JSON. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: Metadata
  readonly [field: string]: unknown
}

export interface Metadata {
  readonly name: string
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly resourceVersion?: string
  readonly uid?: string
  readonly creationTimestamp?: string
  readonly [field: string]: unknown
}

/** Whether JSON is an object: neither an array nor null. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
