import { version } from '../../src/cli/version.ts'
import { type KubeObject, parseYaml } from '../support/deploy.ts'

/**
 * What of Helm's chart is not as in kustomize, each with its reason: a change of what kustomize makes. All
 * else has to be equal.
 */
const differences: readonly {
  readonly why: string
  readonly change: (object: Json) => void
}[] = [
  {
    why: 'helm finds what is of a release by labels',
    change: object => {
      object.metadata['labels'] = {
        ...(object.metadata['labels'] as object | undefined),
        'app.kubernetes.io/name': 'usher',
        'app.kubernetes.io/component': 'service-proxy',
        ...ofRelease,
        'app.kubernetes.io/version': version(),
        'app.kubernetes.io/managed-by': 'Helm',
        'helm.sh/chart': `usher-${version()}`,
      }
    },
  },
  {
    why: 'a cluster may have two releases, on nodes of two kinds',
    change: ({ spec }) => {
      Object.assign(spec?.selector?.matchLabels ?? {}, ofRelease)
      Object.assign(spec?.template?.metadata.labels ?? {}, ofRelease)
    },
  },
  {
    why: 'helm deletes what is no longer made, so that a ConfigMap with a hash in its name would be gone for pods that still have the old one; a checksum in the template starts the update in its place',
    change: object => {
      const { metadata, spec } = object
      metadata['name'] = withoutHash(metadata['name'] as string)
      for (const { configMap } of spec?.template?.spec.volumes ?? [])
        if (configMap !== undefined) configMap.name = withoutHash(configMap.name)
      const template = spec?.template?.metadata
      if (template !== undefined) template['annotations'] = { 'checksum/config': 'any' }
    },
  },
  {
    why: 'a value can be where it is used, without the ConfigMap usher-cluster',
    change: ({ spec }) => {
      const [usher] = spec?.template?.spec.containers ?? []
      for (const variable of usher?.env ?? []) {
        const value = cluster[variable.name]
        if (value === undefined) continue
        delete variable.valueFrom
        variable.value = value
      }
    },
  },
]

const ofRelease = { 'app.kubernetes.io/instance': 'usher' }

const cluster: Readonly<Record<string, string | undefined>> = {
  KUBERNETES_SERVICE_HOST: '192.0.2.10',
  KUBERNETES_SERVICE_PORT: '6443',
}

const withoutHash = (name: string): string =>
  name.replace(/^(usher-config)-\w{10}$/, '$1')

/** As much of an object as is changed. */
interface Json {
  readonly kind: string
  readonly metadata: Record<string, unknown>
  readonly spec?: {
    readonly selector?: { readonly matchLabels: object }
    readonly template?: {
      readonly metadata: Record<string, unknown> & { readonly labels: object }
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { name: string; value?: string; valueFrom?: unknown }[]
        }[]
        readonly volumes: readonly { readonly configMap?: { name: string } }[]
      }
    }
  }
}

/** What the chart has to make, where kustomize makes these. */
export const intended = (objects: readonly KubeObject[]): KubeObject[] => {
  const copies = structuredClone(objects) as unknown as Json[]
  for (const { change } of differences) for (const copy of copies) change(copy)
  const changed = copies as unknown as KubeObject[]
  return changed.filter(({ metadata }) => !metadata.name.startsWith('usher-cluster-'))
}

/**
 * Objects as they are compared: text within a text is parsed, as its comments mean nothing; volumes and their
 * mounts are sorted, and so are names, that a difference is easy to see; there is no checksum.
 */
export const plain = (objects: readonly KubeObject[]): KubeObject[] =>
  JSON.parse(
    JSON.stringify(objects, (name, value: unknown) => {
      if (name === 'checksum/config') return 'any'
      if (/\.(yaml|json)$/.test(name)) return parseYaml(value as string, name)
      if (name === 'volumes' || name === 'volumeMounts') return byName(value as Named[])
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        return value
      return Object.fromEntries(
        Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)),
      )
    }),
  ) as KubeObject[]

interface Named {
  readonly name: string
}

const byName = (all: readonly Named[]): Named[] =>
  all.toSorted((a, b) => (a.name < b.name ? -1 : 1))
