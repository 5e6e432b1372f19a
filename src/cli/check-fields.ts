import { readFile } from 'node:fs/promises'
import type * as Yaml from 'yaml'
import { suggest } from '../util/suggest.ts'
import { loadYaml, yamlDocuments } from '../util/yaml-documents.ts'

// Fields that Kubernetes does not have. An API server would say so (field validation "Strict"); Usher, as every
// client, does not look at what it does not know, and a misspelt field is as one that was left out.

/** By name; true: whatever is below. Items of lists have the fields of their list. */
type Fields = true | { readonly [name: string]: Fields }

/** Of these the values do not matter here. */
const named = <const N extends string>(...names: readonly N[]): Record<N, true> =>
  Object.fromEntries(names.map(name => [name, true])) as Record<N, true>

const metadata = named(
  'name',
  'generateName',
  'namespace',
  'selfLink',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'labels',
  'annotations',
  'ownerReferences',
  'finalizers',
  'managedFields',
)

const of = (fields: Fields): Fields => ({
  ...named('apiVersion', 'kind'),
  metadata,
  ...(fields === true ? {} : fields),
})

const address = named('ip', 'hostname', 'nodeName', 'targetRef')

/** By apiVersion and kind, as of Kubernetes 1.37. */
const kinds: Readonly<Record<string, Fields>> = {
  'v1 Service': of({
    status: true,
    spec: {
      ...named(
        'selector',
        'clusterIP',
        'clusterIPs',
        'type',
        'externalIPs',
        'sessionAffinity',
        'loadBalancerIP',
        'loadBalancerSourceRanges',
        'externalName',
        'externalTrafficPolicy',
        'healthCheckNodePort',
        'publishNotReadyAddresses',
        'ipFamilies',
        'ipFamilyPolicy',
        'allocateLoadBalancerNodePorts',
        'loadBalancerClass',
        'internalTrafficPolicy',
        'trafficDistribution',
      ),
      sessionAffinityConfig: { clientIP: named('timeoutSeconds') },
      ports: named('name', 'protocol', 'appProtocol', 'port', 'targetPort', 'nodePort'),
    },
  }),
  'v1 Endpoints': of({
    subsets: {
      addresses: address,
      notReadyAddresses: address,
      ports: named('name', 'port', 'protocol', 'appProtocol'),
    },
  }),
  'discovery.k8s.io/v1 EndpointSlice': of({
    addressType: true,
    endpoints: {
      ...named(
        'addresses',
        'hostname',
        'targetRef',
        'deprecatedTopology',
        'nodeName',
        'zone',
      ),
      conditions: named('ready', 'serving', 'terminating'),
      hints: { forZones: named('name'), forNodes: named('name') },
    },
    ports: named('name', 'protocol', 'port', 'appProtocol'),
  }),
  'v1 Node': of({ spec: true, status: true }),
  'networking.k8s.io/v1 ServiceCIDR': of({ spec: named('cidrs'), status: true }),
}

const kindNames = ['List', ...Object.keys(kinds).map(kind => kind.replace(/^.* /, ''))]

/** Parsing it once more takes about a second. */
const mostBytes = 4 << 20
/** Of each file. */
const mostFaults = 100

/**
 * What of these files no object of its kind has, and kinds that are misspelt: `web.yaml:6:3: unknown field
 * "sesionAffinity" in spec; did you mean sessionAffinity?`. What can't be read or parsed is not its matter. Of a file
 * of more than 4 MiB, that it was not looked at.
 */
export const unknownFields = async (
  files: readonly string[],
): Promise<{ readonly faults: readonly string[]; readonly left: readonly string[] }> => {
  const yaml = await loadYaml()
  const faults: string[] = []
  const left: string[] = []
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => '')
    if (text.length > mostBytes) left.push(file)
    else faults.push(...faultsOf(file, text, yaml))
  }
  return { faults, left }
}

const faultsOf = (file: string, text: string, yaml: typeof Yaml): readonly string[] => {
  const lines = new yaml.LineCounter()
  const faults: string[] = []
  const fault = (node: unknown, what: string): void => {
    if (!yaml.isNode(node) || faults.length >= mostFaults) return
    const { line, col } = lines.linePos(node.range?.[0] ?? 0)
    faults.push(`${file}:${line}:${col}: ${what}`)
  }
  const walk = (node: unknown, fields: Fields, path: string): void => {
    if (fields === true) return
    if (yaml.isSeq(node))
      for (const [i, item] of node.items.entries()) walk(item, fields, `${path}[${i}]`)
    if (!yaml.isMap(node)) return
    for (const { key, value } of node.items) {
      // `<<` is a symbol.
      if (!yaml.isScalar(key) || typeof key.value === 'symbol') continue
      const name = String(key.value)
      const known = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (known === undefined) fault(key, unknownText(name, Object.keys(fields), path))
      else walk(value, known, path === '' ? name : `${path}.${name}`)
    }
  }
  const object = (node: unknown): void => {
    if (!yaml.isMap(node)) return
    const [version, kind] = [String(node.get('apiVersion')), String(node.get('kind'))]
    const items = node.get('items')
    if (kind === 'List' && yaml.isSeq(items)) return items.items.forEach(object)
    const meant = kindNames.includes(kind) ? undefined : suggest(kind, kindNames)
    if (meant !== undefined)
      fault(node.get('kind', true), `unknown kind "${kind}"; did you mean ${meant}?`)
    else walk(node, kinds[`${version} ${kind}`] ?? true, '')
  }
  try {
    for (const document of yamlDocuments(text, yaml, lines))
      if (document.errors.length === 0) object(document.contents)
  } catch {
    // Who reads the manifests says what is wrong.
  }
  return faults
}

const unknownText = (name: string, known: readonly string[], path: string): string => {
  const meant = suggest(name, known)
  const where = path === '' ? 'at the top' : `in ${path}`
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`
  return `unknown field "${name}" ${where}${hint}`
}
