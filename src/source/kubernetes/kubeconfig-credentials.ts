import type { OutgoingHttpHeaders } from 'node:http'
import type { Clock } from '../../util/clock.ts'
import { type Credentials, type TlsMaterial, FileCredentials } from './credentials.ts'
import {
  FileText,
  fixedText,
  type Text,
  type TextCheck,
  certificateFault,
  keyFault,
} from './file-text.ts'
import type { Kubeconfig, Part } from './kubeconfig.ts'
import { PluginCredentials } from './exec-plugin.ts'
import { UsherError } from '../../util/usher-error.ts'

/**
 * The credentials of a kubeconfig's user: tokens, certificates, exec plugins and auth-providers.
 * Rejects with BAD_SOURCE when a file is missing, or is not what it should be.
 */
export const kubeconfigCredentials = async (
  { cluster, user }: Kubeconfig,
  clock: Clock,
): Promise<Credentials> => {
  const insecure = cluster.raw('insecure-skip-tls-verify') === true
  const caFile = 'certificate-authority'
  const ca = textOf(cluster, caFile, clock, certificateFault)
  if (insecure && ca !== undefined)
    throw new UsherError(
      'BAD_SOURCE',
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
      : new FileText(path, `${part.title}.${field}`, clock, check)
  const text = Buffer.from(data, 'base64').toString('utf8')
  const wrong = check(text)
  if (wrong === '') return fixedText(text)
  throw new UsherError(
    'BAD_SOURCE',
    `${part.title}.${field}-data: what it says in base64 ${wrong}`,
  )
}

/** The file goes before the fixed token, as in client-go. */
const tokenOf = (user: Part, clock: Clock): Text | undefined => {
  const path = user.path('tokenFile')
  if (path !== '') return new FileText(path, `${user.title}.tokenFile`, clock)
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
