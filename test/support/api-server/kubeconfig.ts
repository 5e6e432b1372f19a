import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { certificate } from './certificates.ts'

type User = NonNullable<KubeconfigOptions['user']>

export interface KubeconfigOptions {
  /**
   * How the client proves who it is; `stranger` is a certificate of an authority that the
   * server doesn't trust. Default `token`.
   */
  readonly user?:
    | 'token'
    | 'token-file'
    | 'certificate'
    | 'token-and-certificate'
    | 'stranger'
    | 'nobody'
  /** `wrong`: the client doesn't trust the server's certificate. Default `right`. */
  readonly authority?: 'right' | 'wrong'
}

/** Where the files are, and what is in them. */
export interface Access {
  readonly directory: string
  readonly url: string
  readonly token: string
}

/** Writes a kubeconfig with everything it needs inside, and says where. */
export const writeKubeconfig = (access: Access, options: KubeconfigOptions): string => {
  const { user = 'token', authority = 'right' } = options
  const ca = certificate(authority === 'right' ? 'ca.crt' : 'stranger-ca.crt')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'test',
        cluster: { server: access.url, 'certificate-authority-data': base64(ca) },
      },
    ],
    users: [{ name: 'test', user: userOf(access, user) }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  }
  const path = join(access.directory, `kubeconfig-${user}-${authority}.json`)
  // JSON is YAML.
  writeFileSync(path, JSON.stringify(config, undefined, 2))
  return path
}

/** Writes what a Pod finds in /var/run/secrets, and says where. */
export const writeServiceAccount = ({ directory, token }: Access): string => {
  const path = join(directory, 'serviceaccount')
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'token'), token)
  writeFileSync(join(path, 'ca.crt'), certificate('ca.crt'))
  writeFileSync(join(path, 'namespace'), 'kube-system')
  return path
}

const userOf = (access: Access, user: User): Record<string, string> => {
  const { token } = access
  const ways: Readonly<Record<User, () => Record<string, string>>> = {
    token: () => ({ token }),
    'token-file': () => ({ tokenFile: join(writeServiceAccount(access), 'token') }),
    certificate: () => identity('client'),
    'token-and-certificate': () => ({ token, ...identity('client') }),
    stranger: () => identity('stranger'),
    nobody: () => ({}),
  }
  return ways[user]()
}

const identity = (name: string): Record<string, string> => ({
  'client-certificate-data': base64(certificate(`${name}.crt`)),
  'client-key-data': base64(certificate(`${name}.key`)),
})

const base64 = (text: string): string => Buffer.from(text).toString('base64')
