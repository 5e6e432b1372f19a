import { badSource } from '../source.ts'
import type { LookupFunction } from 'node:net'
import { join } from 'node:path'
import { systemClock, type Clock } from '../../util/clock.ts'
import { show } from '../../util/printable.ts'
import { ApiClient } from './api-client.ts'
import {
  type Credentials,
  FileCredentials,
  type TlsMaterial,
  fileText,
  type TextCheck,
  certificateFault,
  fixedText,
  type Text,
  keyFault,
} from './credentials.ts'
import { readKubeconfig, type Kubeconfig, type Part } from './kubeconfig.ts'
import { agentTo, environmentProxy, proxyUrl } from './proxy.ts'
import type { OutgoingHttpHeaders } from 'node:http'
import { PluginCredentials } from './exec-plugin.ts'

export interface ClusterAccess {
  /** Path of a kubeconfig; '' for none. */
  readonly kubeconfig: string
  /** URL of the API server, before what the kubeconfig says; '' for none. */
  readonly master: string
  /** Requests a second; 0: 5, negative: no limit. */
  readonly qps?: number
  /** Requests in a row; 0: 10. */
  readonly burst?: number
  /** Usher's own, for the User-Agent. */
  readonly version: string
}

export interface ClusterAccessDeps {
  readonly clock?: Clock
  /** Default: `process.env`. */
  readonly env?: NodeJS.ProcessEnv
  readonly lookup?: LookupFunction
  /** Where a pod finds its token and CA. */
  readonly serviceAccountDir?: string
}

const defaultServiceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * A client for the API server, found as client-go finds it: by the kubeconfig, whose
 * server `master` overrides; by `master` alone, without credentials; else as a pod.
 * Rejects with BAD_SOURCE when something is missing; the server itself need not be up.
 */
export const connectToCluster = async (
  access: ClusterAccess,
  deps: ClusterAccessDeps = {},
): Promise<ApiClient> => {
  const { clock = systemClock, env = process.env, lookup } = deps
  const found = await find(access, { ...deps, clock })
  const proxy = found.proxy ?? environmentProxy(found.server, env)
  const { qps, burst, version } = access
  const userAgent = `usher/${version}`
  const agent = await agentTo(found.server, proxy)
  return new ApiClient({ ...found, proxy, agent, lookup, clock, qps, burst, userAgent })
}

interface Found {
  readonly server: URL
  readonly credentials: Credentials
  /** The kubeconfig's, which counts before the environment's. */
  readonly proxy?: URL | undefined
}

/**
 * What is missing is reported now, not with the first request. A plugin may need the network:
 * its faults are those of any request, and are tried again.
 */
const find = async (
  { kubeconfig, master }: ClusterAccess,
  deps: ClusterAccessDeps & { readonly clock: Clock },
): Promise<Found> => {
  if (kubeconfig !== '') return fromKubeconfig(kubeconfig, master, deps.clock)
  if (master === '') return inCluster(deps)
  const server = serverUrl(master, 'http', '--master')
  return { server, credentials: new FileCredentials({ tls: {}, headers: {} }) }
}

const fromKubeconfig = async (
  file: string,
  master: string,
  clock: Clock,
): Promise<Found> => {
  const config = await readKubeconfig(file)
  const { cluster } = config
  const secured = ['certificate-authority', 'certificate-authority-data'].some(
    field => cluster.text(field) !== '',
  )
  const scheme =
    secured || cluster.raw('insecure-skip-tls-verify') === true ? 'https' : 'http'
  const where = master === '' ? `${cluster.title}.server` : '--master'
  const server = serverUrl(master || cluster.text('server'), scheme, where)
  const given = cluster.text('proxy-url')
  const proxy = given === '' ? undefined : proxyUrl(given, `${cluster.title}.proxy-url`)
  return {
    server,
    proxy,
    credentials: await kubeconfigCredentials(config, clock),
  }
}

const inCluster = async ({
  clock,
  env = process.env,
  serviceAccountDir = defaultServiceAccountDir,
}: ClusterAccessDeps & { readonly clock: Clock }): Promise<Found> => {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? ''
  const port = env['KUBERNETES_SERVICE_PORT'] ?? ''
  if (host === '' || port === '')
    throw badSource(
      'no API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give --kubeconfig or --master, --manifests for Services from files, or run in a pod',
    )
  const address = host.includes(':') ? `[${host}]` : host
  const where = 'KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT'
  const server = serverUrl(`https://${address}:${port}`, 'https', where)
  const text = (name: string, check?: TextCheck) =>
    fileText(join(serviceAccountDir, name), `the pod's service account`, clock, check)
  const texts = { token: text('token'), ca: text('ca.crt', certificateFault) }
  const credentials = new FileCredentials({ ...texts, tls: {}, headers: {} })
  await credentials.current()
  return { server, credentials }
}

/** A URL, or `host:port` with the scheme that client-go would take for it. */
const serverUrl = (given: string, scheme: 'http' | 'https', where: string): URL => {
  const right = 'give the URL of the API server, as https://10.0.0.1:6443'
  if (given === '') throw badSource(`${where} is missing; ${right}`)
  const text = given.includes('://') ? given : `${scheme}://${given}`
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username === '')
    return url
  throw badSource(
    `${where}: ${show(given.replace(/\/\/[^/]*@/, '//(...)@'))} is not a server; ${right}`,
  )
}

/**
 * The credentials of a kubeconfig's user: tokens, certificates, exec plugins and auth-providers.
 * Rejects with BAD_SOURCE when a file is missing, or is not what it should be.
 */
const kubeconfigCredentials = async (
  { cluster, user }: Kubeconfig,
  clock: Clock,
): Promise<Credentials> => {
  const insecure = cluster.raw('insecure-skip-tls-verify') === true
  const caFile = 'certificate-authority'
  const ca = textOf(cluster, caFile, clock, certificateFault)
  if (insecure && ca !== undefined)
    throw badSource(
      `${cluster.title}: ${caFile} and insecure-skip-tls-verify: give one of them`,
    )
  const servername = cluster.text('tls-server-name')
  const tls: TlsMaterial = {
    ...(servername !== '' && { servername }),
    ...(insecure && { rejectUnauthorized: false }),
  }
  const own = new FileCredentials({
    ca,
    cert: textOf(user, 'client-certificate', clock, certificateFault),
    key: textOf(user, 'client-key', clock, keyFault),
    token: tokenOf(user, clock),
    tls,
    headers: headersOf(user),
  })
  await own.current()
  if (user.raw('exec') === undefined && user.raw('auth-provider') === undefined)
    return own
  return new PluginCredentials({ own, user, clock })
}

/** `<field>-data`, in base64, goes before the file that `<field>` names, as in client-go. */
const textOf = (
  part: Part,
  field: string,
  clock: Clock,
  check: TextCheck,
): Text | undefined => {
  const data = part.text(`${field}-data`)
  const path = part.path(field)
  if (data === '')
    return path === ''
      ? undefined
      : fileText(path, `${part.title}.${field}`, clock, check)
  const text = Buffer.from(data, 'base64').toString('utf8')
  const wrong = check(text)
  if (wrong === '') return fixedText(text)
  throw badSource(`${part.title}.${field}-data: what it says in base64 ${wrong}`)
}

/** The file goes before the fixed token, as in client-go. */
const tokenOf = (user: Part, clock: Clock): Text | undefined => {
  const path = user.path('tokenFile')
  if (path !== '') return fileText(path, `${user.title}.tokenFile`, clock)
  const token = user.text('token')
  return token === '' ? undefined : fixedText(token)
}

const headersOf = (user: Part): OutgoingHttpHeaders => {
  const name = user.text('username')
  const as = user.text('as')
  const groups = user.raw('as-groups')
  const basic = Buffer.from(`${name}:${user.text('password')}`).toString('base64')
  return {
    ...(name !== '' && { authorization: `Basic ${basic}` }),
    ...(as !== '' && { 'impersonate-user': as }),
    ...(Array.isArray(groups) && { 'impersonate-group': groups.map(String) }),
  }
}
