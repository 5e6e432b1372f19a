import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { runSettings } from '../../src/config/run-settings.ts'

/** The top of the repository, with a slash at its end. */
export const top = fileURLToPath(new URL('../../', import.meta.url))

/** Where the kustomizations are, below `top`. */
export const kubernetes = 'deploy/kubernetes'

interface EnvVar {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: {
    readonly fieldRef?: { readonly fieldPath: string }
    readonly configMapKeyRef?: { readonly name: string; readonly key: string }
  }
}

interface Probe {
  readonly exec?: { readonly command: readonly string[] }
  readonly httpGet: { readonly path: string; readonly port: number }
  readonly periodSeconds: number
  readonly failureThreshold: number
}

interface Container {
  readonly name: string
  readonly image: string
  readonly args: readonly string[]
  readonly env: readonly EnvVar[]
  readonly ports?: unknown
  readonly startupProbe: Probe
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}

export interface PodSpec {
  readonly containers: readonly Container[]
  readonly nodeSelector: Readonly<Record<string, string>>
  readonly serviceAccountName: string
  readonly terminationGracePeriodSeconds: number
  readonly volumes: readonly Volume[]
  readonly [field: string]: unknown
}

interface Volume {
  readonly name: string
  readonly configMap?: KubeMeta
  readonly hostPath?: { readonly path: string; readonly type: string }
  readonly emptyDir?: object
}

interface KubeMeta {
  readonly name: string
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

/** As much of an object as the tests look at. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: KubeMeta
  readonly data?: Readonly<Record<string, string>>
  readonly rules?: readonly PolicyRule[]
  readonly roleRef?: { readonly kind: string; readonly name: string }
  readonly subjects?: readonly (KubeMeta & { readonly kind: string })[]
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly template: { readonly metadata: KubeMeta; readonly spec: PodSpec }
    readonly updateStrategy?: unknown
  }
}

/** The documents of a YAML text. Throws on any error or warning, a twin key among them. */
export const parseYaml = (text: string, name: string): unknown[] => {
  const documents = parseAllDocuments(text, { uniqueKeys: true })
  if (!Array.isArray(documents)) throw new Error(`${name} is empty`)
  return documents.map(document => {
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) throw new Error(`${name}: ${problem.message}`)
    return document.toJS() as unknown
  })
}

/** A YAML file below `top` that holds objects. */
export const readObjects = (path: string): KubeObject[] =>
  parseYaml(readFileSync(`${top}${path}`, 'utf8'), path) as KubeObject[]

/** Why what kustomize makes can't be looked at here; false where it can. */
export const noKustomize: string | false =
  spawnSync('kubectl', ['kustomize', '--help']).status === 0
    ? false
    : 'kubectl is not installed'

/** What `kubectl kustomize` makes of a directory. */
export const build = async (path: string): Promise<{ text: string; all: Built }> => {
  const { stdout } = await promisify(execFile)('kubectl', ['kustomize', path], {
    cwd: top,
  })
  return { text: stdout, all: new Built(parseYaml(stdout, path) as KubeObject[]) }
}

/** What it makes of the overlay every-node with one of the components added. */
export const buildWith = async (t: Test, component: string): Promise<Built> => {
  const directory = t.testdirName
  const to = (path: string): string => relative(directory, `${top}${kubernetes}/${path}`)
  t.testdir({
    'kustomization.yaml': JSON.stringify({
      resources: [to('overlays/every-node')],
      components: [to(component)],
    }),
  })
  return (await build(directory)).all
}

/** What Usher makes of the arguments of the container and the file that it has for --config. */
export const settingsOf = ({ args: [command, ...flags] }: Container, config: string) => {
  if (command !== 'run') throw new Error(`it runs ${command}`)
  // Kubernetes puts it in.
  const words = flags.map(flag => flag.replace('$(NODE_NAME)', 'node'))
  return runSettings(words, async () => config)
}

/** What `usher run` does when it is told nothing. */
export const plainSettings = () =>
  runSettings([], async path => {
    throw new Error(`no file is named, and ${path} is read`)
  })

/** The objects of a build. */
export class Built {
  readonly objects: readonly KubeObject[]

  constructor(objects: readonly KubeObject[]) {
    this.objects = objects
  }

  /** The only object of its kind. Throws when there is none, or more. */
  the(kind: string): KubeObject {
    const [found, another] = this.objects.filter(object => object.kind === kind)
    if (found === undefined || another !== undefined) throw new Error(`not one ${kind}`)
    return found
  }

  configMap(name: string): KubeObject | undefined {
    return this.objects.find(
      object => object.kind === 'ConfigMap' && object.metadata.name === name,
    )
  }

  get pod(): PodSpec {
    return this.the('DaemonSet').spec.template.spec
  }

  /** The container that runs Usher. */
  get usher(): Container {
    const [container] = this.pod.containers
    if (container === undefined) throw new Error('the DaemonSet has no container')
    return container
  }
}
