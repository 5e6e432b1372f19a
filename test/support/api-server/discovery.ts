import type { Behaviour } from './options.ts'
import { notServed } from './refusals.ts'
import { allResources, type Resource } from './resources.ts'

const verbs = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch']

const shortNames: Readonly<Record<string, readonly string[]>> = {
  services: ['svc'],
  endpoints: ['ep'],
  nodes: ['no'],
  namespaces: ['ns'],
  configmaps: ['cm'],
  pods: ['po'],
  daemonsets: ['ds'],
}

/** The answer to `/version`, `/api`, `/apis` and what is below, for kubectl. Throws 404. */
export const discover = (path: string, { off }: Behaviour): object => {
  const served = allResources.filter(({ plural }) => !off.has(plural))
  if (path === '/version')
    return { major: '1', minor: '34', gitVersion: 'v1.34.0', platform: 'linux/amd64' }
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] }
  if (path === '/apis') return groupList(served)
  const [, version] = /^\/apis?\/(.+)$/.exec(path) ?? []
  const found = served.filter(({ apiVersion }) => apiVersion === version)
  if (found.length > 0) return resourceList(version ?? '', found)
  throw notServed(version !== undefined && isKnown(groupVersionOf(version), { off }))
}

/** Whether anything of this group and version is served; Ingresses, which this server does not hold, always are. */
export const isKnown = (apiVersion: string, { off }: Pick<Behaviour, 'off'>): boolean =>
  apiVersion === 'networking.k8s.io/v1' ||
  allResources.some(each => each.apiVersion === apiVersion && !off.has(each.plural))

/** `apps/v1` of `apps/v1/deployments`. */
const groupVersionOf = (path: string): string =>
  path.startsWith('v1/') ? 'v1' : path.split('/').slice(0, 2).join('/')

const groupList = (served: readonly Resource[]): object => {
  const versions = new Set(served.map(({ apiVersion }) => apiVersion))
  versions.delete('v1')
  const groups = [...versions].map(groupVersion => {
    const [name, version] = groupVersion.split('/')
    return {
      name,
      versions: [{ groupVersion, version }],
      preferredVersion: { groupVersion, version },
    }
  })
  return { kind: 'APIGroupList', apiVersion: 'v1', groups }
}

const resourceList = (groupVersion: string, found: readonly Resource[]): object => ({
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion,
  resources: found.map(({ plural, kind, namespaced }) => ({
    name: plural,
    singularName: kind.toLowerCase(),
    namespaced,
    kind,
    shortNames: shortNames[plural] ?? [],
    verbs,
  })),
})
